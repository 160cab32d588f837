"""Beam search: the definition, the engine of a CPU and the search of a GPU.

Read in this order:

hypotheses.py     a hypothesis, its score and its longest length; how a beam grows
engine.py         CTranslate2 with our weights, for the search on a CPU
static_search.py  the search on a GPU, in fixed shapes
beam_search.py    the most probable target, token by token, in batches
"""
