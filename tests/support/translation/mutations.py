"""Files with a random damage: bits, bytes and numbers changed, parts cut out, doubled or inserted."""

import os
import re

COUNT = int(os.environ.get("REGARD_MUTATIONS", "100"))
NASTY = [
    b"0",
    b"-1",
    b"1",
    b"7",
    b"999999999999",
    b"1e308",
    b"NaN",
    b"true",
    b"null",
    b'"x"',
    b"[]",
    b"{}",
    b"9" * 5000,
]


def mutated(data, random):
    """One damage, anywhere."""
    data = bytearray(data)
    kind = random.choice(["bit", "byte", "number", "digit", "cut", "delete", "double", "insert"])
    place = random.randrange(len(data))
    size = random.choice([1, 2, 8, 60, 1000])
    if kind == "bit":
        data[place] ^= 1 << random.randrange(8)
    elif kind == "byte":
        data[place] = random.randrange(256)
    elif kind in ("number", "digit"):
        numbers = list(re.finditer(rb"\d+", bytes(data[:5000])))  # where there is text, it comes first
        found = random.choice(numbers) if numbers else None
        if found is not None and kind == "number":
            data[found.start() : found.end()] = random.choice(NASTY)
        elif found is not None:
            data[random.randrange(*found.span())] = random.choice(b"0123456789")
    elif kind == "cut":
        del data[place:]
    elif kind == "delete":
        del data[place : place + size]
    elif kind == "double":
        data[place:place] = data[place : place + size]
    else:
        data[place:place] = random.randbytes(size)
    return bytes(data)
