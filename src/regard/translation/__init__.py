"""From text to text: what stands around the Transformer to translate with it.

search.py   the most probable target, token by token: greedy or with a beam
"""
