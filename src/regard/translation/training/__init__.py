"""From a recipe and corpora to a model, and its scores.

Read in this order:

vocabulary.py  text to token ids and back; for training, with random segmentations
corpus.py      pairs of sentences from files, near duplicates, padded batches; `score`: BLEU and chrF2
recipe.py      everything that defines a training
checkpoint.py  a training on disk, and its clock
processes.py   the processes of a training that torchrun started, and the share of each
loop.py        `train`: from a recipe to a model
"""
