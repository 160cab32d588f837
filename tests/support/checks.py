"""How the shapes and types of signatures are checked while the tests run.

jaxtyping's import hook decorates every function with `jaxtyping.jaxtyped`, which binds the arguments and checks them twice
even where there is no shape to check, and decorates a nested function anew whenever it is made. That took most of the time
of the property tests. `install` puts `checked` in its place: the same checks, by the cheapest means.
"""

import inspect
import types
from collections import Counter
from functools import wraps

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import config, install_import_hook
from jaxtyping._decorator import _destring_annotation

jaxtyped = jaxtyping.jaxtyped
typed = beartype(conf=BeartypeConf(is_pep484_tower=True))  # as PEP 484 has it, by which an int is a float too
_NESTED = 3  # how often a nested function is checked: decorating takes longer than most of them run
_SHAPES = ("Float[", "Int[", "Bool[")
_made: Counter[types.CodeType] = Counter()


def install(modules):
    """Check every function and dataclass of these modules from now on; call it before they are imported."""
    jaxtyping.jaxtyped = checked  # the hook's decorators look it up there
    install_import_hook(modules, "support.checks.typed")


def checked(found=None, *, typechecker=typed):
    """A function, or the `__init__` of a dataclass, that checks its arguments and its result."""
    if found is None:
        return lambda found: checked(found, typechecker=typechecker)
    if not inspect.isfunction(found):
        return jaxtyped(found, typechecker=typechecker)
    notes = found.__annotations__
    if not notes:
        return found
    if "<locals>" in found.__qualname__:
        _made[found.__code__] += 1
        if _made[found.__code__] > _NESTED:
            return found
    if any(shape in str(note) for note in notes.values() for shape in _SHAPES):
        return jaxtyped(found, typechecker=typechecker)
    twin = types.FunctionType(found.__code__, found.__globals__, found.__name__, found.__defaults__, found.__closure__)
    twin.__kwdefaults__, twin.__qualname__, twin.__module__ = found.__kwdefaults__, found.__qualname__, found.__module__
    twin.__annotations__ = {name: _destring_annotation(note, found.__globals__) for name, note in notes.items()}
    checking = typechecker(twin)

    @wraps(found)
    def either(*args, **kwargs):
        return (found if config.jaxtyping_disable else checking)(*args, **kwargs)

    return either
