"""Look into a model while it runs: `watch` gives a `Record` of the attention of every layer.

Read in this order:

capture/         what sees the attention of a running model
record/          `Record`: what was captured, entry by entry
questions/       what people ask of a record
images/          the images that a model read
head_numbers.py  the numbers of each head in one forward, summed up so that ranks can add theirs
monitoring.py    `monitor`: samples these numbers while a model trains, says what is alarming, and draws a film
see.py           what `regard see` runs: find a model by its name, watch it, print the answers
"""

from regard.matrix import Mixture
from regard.watching.capture.activations import Activation
from regard.watching.capture.huggingface import load
from regard.watching.capture.links import Link
from regard.watching.capture.session import watch
from regard.watching.images.families import Patch
from regard.watching.monitoring import Alarm, Monitor, Sample, monitor
from regard.watching.questions.atlas import Atlas
from regard.watching.questions.cache import cache_scores, press
from regard.watching.questions.effects import Effect, Effects, effect, effects
from regard.watching.questions.looks import Heads, Looks, Rollout, Spans
from regard.watching.questions.speech import Speech
from regard.watching.questions.why import Terms, Why
from regard.watching.record.entries import Entry
from regard.watching.record.record import Record
from regard.watching.see import find_model, listen

__all__ = [
    "Activation",
    "Alarm",
    "Atlas",
    "Effect",
    "Effects",
    "Entry",
    "Heads",
    "Link",
    "Looks",
    "Mixture",
    "Monitor",
    "Patch",
    "Record",
    "Rollout",
    "Sample",
    "Spans",
    "Speech",
    "Terms",
    "Why",
    "cache_scores",
    "effect",
    "effects",
    "find_model",
    "listen",
    "load",
    "monitor",
    "press",
    "watch",
]
