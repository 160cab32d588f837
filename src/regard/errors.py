"""The errors that regard raises, all under `RegardError`; each is also an error of Python that a user may expect."""


class RegardError(Exception):
    """The base class of the errors that regard raises."""


class InputError(RegardError):
    """A wrong argument; the message says what must hold, what came, and what to do."""


class ShapeError(InputError, ValueError):
    """An argument with a wrong shape."""


class DTypeError(InputError, TypeError):
    """An argument with a wrong type or dtype."""


class DeviceError(InputError, ValueError):
    """Arguments on different devices."""


class OutOfRangeError(InputError, IndexError):
    """An index outside the matrix, or a k larger than the matrix."""


class FileError(RegardError, OSError):
    """A file that is missing, damaged, or of another kind."""


class ModifiedInPlaceError(RegardError, RuntimeError):
    """A tensor was changed in place after the matrix that reads it was made."""


class MissingDependencyError(RegardError, ImportError):
    """A package must be installed first: the message names it."""


class RankError(RegardError, RuntimeError):
    """Another rank of a distributed matrix ended, failed or made another call."""


class TooLargeError(RegardError, MemoryError):
    """A result does not fit in memory, or a picture in its budget."""


class WatchError(RegardError, RuntimeError):
    """A model cannot be watched, or not with these options."""


class UnseenWarning(UserWarning):
    """Attention of a watched model ran where it could not be seen; `record.unseen` names it."""
