"""A disk that is full."""

import resource
from contextlib import contextmanager


@contextmanager
def limited(size):
    """While it lasts, no file can grow over this many bytes: the system refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
