"""From a text to segments that a model can read, and back.

Read in this order:

structure.py  lines → prose → sentences: what begins a line, what is copied, where sentences end
languages.py  `Languages`: the rules of English and French in one object; whether a text looks English
facts.py      what must come out as it went in: numbers, addresses, code, markup, quotations
segments.py   `Segment`: a sentence with its facts hidden, which are put back into its translation
"""
