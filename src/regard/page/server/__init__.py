"""The server: what reads a text, what is kept of it, and the addresses.

Read in this order:

readings.py   what a model did with a text, and which of them are kept
inside.py     every number of one token in one head of one layer
readers.py    what reads a text: a translator of regard's own, models of Hugging Face, records from files
jobs.py       the model's work in one thread, slice by slice; pictures' in others
listening.py  what holds for every request and every answer; the server, from an address to its end
app.py        the addresses, from a request to an answer
"""
