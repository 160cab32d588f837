"""What was captured, as a user reads it: entries, tokens, reductions, files.

Read in this order:

entries.py     `Entry`: what a reader sees of a module, and what its mask shows
reductions.py  what an entry can keep instead of its matrix
pooling.py     the kept picture, which grows with the text
tokens.py      tokens, words, and the text that a model read
record.py      `Record`: entries by module name, and the questions below; `Check`: a sample of it computed again
values.py      what a weighted word contributes: its value, through the output projection
storage.py     records as files
"""
