"""Numbers of every head while a model trains.

Read in this order:

head_numbers.py   the numbers of each head in one forward, summed up so that ranks can add theirs
monitoring.py     `monitor`: samples a model every so many steps, says what is alarming, and draws a film; callbacks
"""
