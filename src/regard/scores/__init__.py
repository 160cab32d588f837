"""Everything before the softmax: which query may see which key, and the scores themselves.

Read in this order:

masks.py       masks as values that compose: causal, window, padding, documents, bias, cut
bound_mask.py  a mask laid onto one matrix: what any tile of it hides or adds
pieces.py      a mask with cuts as pieces without any
scores.py      `Scores`: query, key, mask, scale, softcap and sinks, checked; any stage of any part
"""

from regard.scores.bound_mask import MASK_PARTS, BoundMask, Positions, bind, pick, take
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
from regard.scores.pieces import PLAIN, Piece, in_blocks, in_pieces
from regard.scores.scores import Scores, as_range, check_floats, make_scores

__all__ = [
    "HIDING",
    "MASK_PARTS",
    "PLAIN",
    "Atom",
    "Band",
    "BoundMask",
    "Cut",
    "Dense",
    "Keep",
    "Mask",
    "Piece",
    "Positions",
    "Same",
    "Scores",
    "as_mask",
    "as_range",
    "bias",
    "bind",
    "causal",
    "check_floats",
    "cut",
    "documents",
    "hides",
    "in_blocks",
    "in_pieces",
    "make_scores",
    "padding",
    "pick",
    "take",
    "window",
]
