"""A record: what was captured, as a user reads it.

Read in this order:

tokens.py      tokens, words, and the text that a model read
reductions.py  what an entry can keep instead of its matrix
entries.py     `Entry`: the attention of one module, with its tokens and what its mask shows
record.py      `Record`: entries by module name, and the methods that ask the questions
storage.py     records that leave their process: as files, or gathered from all ranks
"""
