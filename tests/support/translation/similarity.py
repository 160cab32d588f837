"""The definition of similar lines, which `near` answers for millions of them."""

from regard.translation.training.corpus import character_ngrams


def jaccard(one: str, other: str) -> float:
    """The Jaccard similarity of the character 4-grams of two lines, from 0 to 1."""
    a, b = character_ngrams(one), character_ngrams(other)
    return len(a & b) / len(a | b) if a or b else 1.0
