"""What can go wrong, as one small tree.

RegardError
├── InputError         an argument does not fit: the message says what must hold, what came, what to do
│   ├── ShapeError     … in its shape                                   (also a ValueError)
│   ├── DTypeError     … in its type or dtype                           (also a TypeError)
│   ├── DeviceError    … in where it lies                               (also a ValueError)
│   └── OutOfRangeError    an index or a k that the matrix does not have     (also an IndexError)
├── FileError          a file is missing, damaged or not what it should be   (also an OSError)
├── ModifiedInPlaceError   a tensor was changed in place after its matrix was made   (also a RuntimeError)
├── MissingDependencyError an extra is not installed                         (also an ImportError)
├── RankError          another rank ended, failed or made another call       (also a RuntimeError)
├── TooLargeError      the result would not fit in memory, or in the size asked for   (also a MemoryError)
└── WatchError         a model cannot be watched, or not in this way    (also a RuntimeError)

UnseenWarning          some attention of a watched model ran unseen     (a UserWarning)
"""

__all__ = [
    "DTypeError",
    "DeviceError",
    "FileError",
    "InputError",
    "MissingDependencyError",
    "ModifiedInPlaceError",
    "OutOfRangeError",
    "RankError",
    "RegardError",
    "ShapeError",
    "TooLargeError",
    "UnseenWarning",
    "WatchError",
]


class RegardError(Exception):
    """The root of every error that regard raises on purpose."""


class InputError(RegardError):
    """An argument does not fit."""


class ShapeError(InputError, ValueError):
    """An argument has a shape that cannot work."""


class DTypeError(InputError, TypeError):
    """An argument has a type or dtype that cannot work."""


class DeviceError(InputError, ValueError):
    """Arguments that must lie on one device do not."""


class OutOfRangeError(InputError, IndexError):
    """An index points outside the matrix, or more was asked for than it holds."""


class FileError(RegardError, OSError):
    """A file is missing, damaged, or of another kind than was asked for."""


class ModifiedInPlaceError(RegardError, RuntimeError):
    """A tensor was changed in place after the matrix that reads it was made."""


class MissingDependencyError(RegardError, ImportError):
    """Something must be installed first: the message says what."""


class RankError(RegardError, RuntimeError):
    """Another rank of a distributed matrix has ended, could not take part, or made another call."""


class TooLargeError(RegardError, MemoryError):
    """A dense result would not fit in memory, or a picture not in its budget."""


class WatchError(RegardError, RuntimeError):
    """A model cannot be watched, or not in this way."""


class UnseenWarning(UserWarning):
    """Attention of a watched model ran where it could not be seen; `record.unseen` names it."""
