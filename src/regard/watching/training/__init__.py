"""Numbers of every head while a model trains.

Read in this order:

head_numbers.py   the numbers of each head in one forward, summed up so that ranks can add theirs
alarms.py         which of these numbers are a reason to worry, and who says so
monitoring.py     `monitor`: samples a model every so many steps
callbacks.py      the same inside the Trainer of transformers and of Lightning
"""
