"""Everything before the softmax: which query may see which key, and the scores themselves.

Read in this order:

masks.py       masks as values that compose: causal, window, padding, documents, bias
bound_mask.py  a mask laid onto one matrix: what any tile of it hides or adds
scores.py      `Scores`: query, key, mask, scale, softcap and sinks, checked; any stage of any part
"""

from regard.scores.bound_mask import BoundMask, Positions, bind, pick, take
from regard.scores.masks import (
    HIDING,
    Atom,
    Band,
    Dense,
    Keep,
    Mask,
    Same,
    as_mask,
    bias,
    causal,
    documents,
    hides,
    padding,
    window,
)
from regard.scores.scores import Scores, as_range, check_floats, make_scores

__all__ = [
    "HIDING",
    "Atom",
    "Band",
    "BoundMask",
    "Dense",
    "Keep",
    "Mask",
    "Positions",
    "Same",
    "Scores",
    "as_mask",
    "as_range",
    "bias",
    "bind",
    "causal",
    "check_floats",
    "documents",
    "hides",
    "make_scores",
    "padding",
    "pick",
    "take",
    "window",
]
