"""From a recipe and corpora to a model, and its scores.

Read in this order:

vocabulary.py  text to token ids and back; for training, in more ways than one
corpus.py      pairs of sentences from files, near duplicates, and pairs of ids as padded batches
recipe.py      everything that defines a training
checkpoint.py  a training on disk, and the time it has taken
processes.py   the processes of a training that torchrun started, and what each one does
loop.py        `train`: from a recipe to a model
scoring.py     `score`: BLEU and chrF2
"""
