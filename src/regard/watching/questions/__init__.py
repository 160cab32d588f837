"""What people ask of a record, and of a model without some of its links or heads.

Read in this order:

answers.py     `Looks`, `Rollout`, `Heads`, `Spans`: what the questions answer, and how it prints
sinks.py       attention sinks: which tokens they are, and what is given to them
rankings.py    how the answers are computed: what a word looks at, what it is made of, which heads do something
roles.py       what each head does, in one phrase
atlas.py       `Atlas`: what every head does, in numbers and in a phrase
passages.py    a passage of a long text: its words, what they give to each other, and what goes elsewhere
written.py     the rows of cross-attention, named after the words that are written
cache.py       which tokens a key–value cache may forget; a press for kvpress
pictures.py    lines, matrix, grid, flow and map
comparison.py  `effect`: what changes without some heads or links
scans.py       `effects`: the same for every head, or for every span of a text, many in one batch
"""
