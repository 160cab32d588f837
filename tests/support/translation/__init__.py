"""Small trainings: `tiny` and `tiny_recipe` make them, `ranks` and `kills` run them in processes and stop these.

`mutations` damages files; `random_models` makes untrained models for the tests of the search.
"""
