"""From a text to segments that a model can read, and back.

Read in this order:

structure.py     the lines of a text, what begins them, what is no prose; its sentences
facts.py         what must come out as it went in: numbers, addresses, code, markup
typography.py    plain French as it is printed
placeholders.py  what is removed before a model reads a text, and put back by the alignment
quotes.py        quotations and their punctuation in French
wording.py       informal English, put into words that the model knows
segments.py      a text as segments that a model can read, with their facts hidden
language.py      whether a text looks like English
"""
