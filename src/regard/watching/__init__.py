"""Look into a model while it runs: `watch` gives a `Record` of the attention of every layer.

Read in this order:

capture/         what sees the attention of a running model
record/          `Record`: what was captured, entry by entry
questions/       what people ask of a record
images/          the images that a model read
local_models.py  models by name, in installed packages and the Hugging Face cache
see.py           what `regard see` runs
"""

from regard.watching.capture.links import Link
from regard.watching.capture.session import watch
from regard.watching.images.patches import Patch
from regard.watching.questions.comparison import Effect, effect
from regard.watching.questions.scans import Effects, effects
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record

__all__ = ["Effect", "Effects", "Entry", "Link", "Patch", "Record", "effect", "effects", "watch"]
