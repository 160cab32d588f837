# %% [markdown]
# # A figure for my slides
#
# Everything with numbers has a `.picture()`, and every picture can be saved: as SVG for slides and papers, as HTML with
# hover, as PNG or PDF (these two need `pip install '.[draw]'`).

# %%
import tempfile
from pathlib import Path

import numpy as np

import regard
from regard import drawing

dog = regard.steps(*regard.textbook.dog())
picture = dog.as_matrix().picture(dog.words, pick="it", title="Who is “it”?")
picture

# %% [markdown]
# `width` is in pixels; `theme` is "light" or "dark"; `transparent` omits the background, so that the slide's
# shows through.

# %%
with tempfile.TemporaryDirectory() as folder:  # yours would be Path("figures")
    for name, options in {
        "it.svg": {"width": 800},
        "it-dark.svg": {"theme": "dark", "transparent": True},
        "it.html": {},
        "it.png": {"width": 1600},
        "it.pdf": {"title": "Another title"},
    }.items():
        try:
            path = picture.save(Path(folder) / name, **options)
            print(f"{name:<12} {path.stat().st_size:>8,} bytes")
        except regard.MissingDependencyError as error:
            print(f"{name:<12} {error}")

# %% [markdown]
# ## Which picture?
#
# | you have | take |
# | --- | --- |
# | a sentence and one word in it | `A.picture(words, pick="it")`: lines |
# | a sentence, all of it | `A.picture(words, kind="matrix")` |
# | a long text | `A.picture(kind="map")`; saved as .html, it can be zoomed from all of it to a single weight |
# | the calculation itself | `regard.steps(…).picture()` |
# | a watched model | `record.picture("lines")`, or "matrix", "grid", "flow", "map" |
# | a translation | `translation.picture()` |
# | only numbers | the functions of `regard.drawing` |
#
# The last ones take arrays and words, and know no model:

# %%
drawing.lines(dog.weights, dog.words, pick="it", layout="arcs", title="As arcs over one row")

# %%
weights = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.1, 0.6]])
drawing.mixture(weights, np.eye(3), ["I", "am", "good"], pick="I", title="What one output is made of")

# %%
drawing.architecture(regard.TransformerConfig.base(), "encoder", title="The encoder of the paper")

# %% [markdown]
# In a terminal, `print(picture)` draws it as text. Files are held to a budget of 5 MB, so that no slide becomes heavy
# by accident; `save(…, budget=…)` raises it.

# %%
print(picture)

# %% [markdown]
# ## On the command line
#
#     $ regard see "A dog ate the food because it was hungry." --from it --to dog --lines -o it.svg
#     $ regard steps "I am good" -o steps.svg
#     $ regard translate "A dog ate the food because it was hungry." --picture -o alignment.svg
#
# ## More pictures
#
# [The gallery](../figures/README.md) shows 42 figures, each with the call that draws it.
