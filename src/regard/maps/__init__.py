"""Levels and tiles of an attention matrix for the zoomable viewer: the pooled whole, and any part down to one weight.

Read in this order:

feed.py     `MatrixFeed`: any part of a map, computed when the viewer requests it; `MapEntry`, one layer of a map
levels.py   `Bins` of tokens; the coarse levels of a long matrix, from one sweep in the background
packing.py  what a file carries instead: rounded queries and keys, the mask as rules, one coarse level
"""

from regard.maps.feed import MapEntry, MatrixFeed

__all__ = ["MapEntry", "MatrixFeed"]
