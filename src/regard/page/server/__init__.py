"""The server of the page. Read in this order:

readings.py   what a model did with a text, and which readings are kept
inside.py     every number of one token in one head of one layer
readers.py    what reads a text: a translator of regard's own, models of Hugging Face, records from files
jobs.py       the model's work in one thread, slice by slice; everything else in a pool of threads
app.py        the addresses, from a request to an answer; the checks of every request; the server's start and end
"""
