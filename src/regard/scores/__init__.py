"""Everything before the softmax: which query may see which key, and the scores themselves.

Read in this order:

masks.py       masks as values that compose: causal, window, padding, documents, bias, cut
bound_mask.py  a mask bound to one matrix: what any tile of it hides or adds; a mask with cuts as pieces without
scores.py      `Scores`: query, key, mask, scale, softcap and sinks, checked; any stage of any part
"""

from regard.scores.bound_mask import (
    MASK_PARTS,
    BoundMask,
    Positions,
    bands_between,
    bind,
    cut_runs,
    in_pieces,
    pick,
    take,
)
from regard.scores.masks import (
    HIDING,
    Atom,
    Band,
    Cut,
    Dense,
    Keep,
    Mask,
    Same,
    as_mask,
    bias,
    causal,
    cut,
    documents,
    hides,
    padding,
    window,
)
from regard.scores.scores import Scores, as_range, check_floats, key_span, make_scores, share

__all__ = [
    "HIDING",
    "MASK_PARTS",
    "Atom",
    "Band",
    "BoundMask",
    "Cut",
    "Dense",
    "Keep",
    "Mask",
    "Positions",
    "Same",
    "Scores",
    "as_mask",
    "as_range",
    "bands_between",
    "bias",
    "bind",
    "causal",
    "check_floats",
    "cut",
    "cut_runs",
    "documents",
    "hides",
    "in_pieces",
    "key_span",
    "make_scores",
    "padding",
    "pick",
    "share",
    "take",
    "window",
]
