"""Questions to a record, and to a model without some of its links or heads.

Read in this order:

sinks.py     attention sinks: which tokens they are, and how much attention rests on them
looks.py     what a word looks at, what it is made of, which heads look where; `Looks`, `Heads`, `Rollout`, `Spans`
atlas.py     `Atlas`: what each head does, in numbers and in a phrase
passages.py  the pictures of a record; of a long text, a passage of it
speech.py    `Speech`: when each word was spoken, by the alignment heads of Whisper
cache.py     which tokens a key-value cache may forget; a press for kvpress
why.py       `why`, `says`: a score or a logit as a sum over heads, feed-forward layers and embeddings
estimates.py estimates of many effects from one gradient: which heads and links carried an answer
effects.py   `effect`, `effects`: what changes in the output without some heads, links or spans, or with another run's
"""
