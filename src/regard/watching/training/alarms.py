"""Which numbers of a head are a reason to worry, and who says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, median

from regard.watching.training.head_numbers import Numbers

_LOGIT = 100.0  # Kimi K2 clips beyond
_COLLAPSED, _FALLEN = 0.05, 0.25  # entropy of a layer: share of the possible, and of the largest so far
_DEAD = 0.01  # output of a head, as a share of the median of its layer
_SINK = 0.3  # from here on Gu and others call a token a sink
_SOURCES = {
    "logits": "Kimi K2 (2025, arXiv:2507.20534) clips query and key weights beyond 100",
    "entropy": "Zhai and others (2023, arXiv:2303.06296): training becomes unstable as entropy collapses",
    "dead": "Michel and others (2019, arXiv:1905.10650): such a head can be removed",
    "sink": "Gu and others (2025, arXiv:2410.10781): a token is a sink from a share of 0.3 on",
}


@dataclass(frozen=True)
class Alarm:
    """Something that began at this step: which head or layer, what was measured, and who calls it a problem."""

    step: int
    where: str
    kind: str  # "logits", "entropy", "dead" or "sink"
    reason: str

    @property
    def source(self) -> str:
        """The publication that the threshold is from."""
        return _SOURCES[self.kind]

    def __str__(self) -> str:
        return f"step {self.step}, {self.where}: {self.reason}. {self.source}."


def alarms(
    step: int, layers: Mapping[str, Numbers], first: Mapping[str, Numbers], highest: Mapping[str, float]
) -> Iterator[Alarm]:
    """The alarms of one sample.

    Args:
        step: its step.
        layers: the numbers of each layer.
        first: those of the first sample of each layer.
        highest: the largest entropy that each layer has had.
    """
    for layer, numbers in layers.items():
        heads = [f"{layer}/head{n:02d}" for n in range(len(numbers["entropy"]))]
        entropy, relative = fmean(numbers["entropy"]), fmean(numbers["entropy_relative"])
        if relative < _COLLAPSED and entropy < _FALLEN * highest[layer]:
            fallen = f"entropy {entropy:.2f} of once {highest[layer]:.2f}, {relative:.1%} of what is possible"
            yield Alarm(step, layer, "entropy", fallen)
        usual = median(numbers["output_norm"])
        for n, head in enumerate(heads):
            if numbers["max_logit"][n] > _LOGIT:
                yield Alarm(step, head, "logits", f"logits up to {numbers['max_logit'][n]:.0f}")
            if numbers["output_norm"][n] < _DEAD * usual:
                yield Alarm(step, head, "dead", f"output of length {numbers['output_norm'][n]:.2g}, others {usual:.2g}")
            if numbers["sink"][n] >= _SINK > first[layer]["sink"][n]:
                before = first[layer]["sink"][n]
                yield Alarm(step, head, "sink", f"one token receives {numbers['sink'][n]:.0%}, at first {before:.0%}")
