"""An extension of griffe: the parameters of each function as a table, so that the signature above it stays short."""

from __future__ import annotations

from html import escape
from typing import Any

from griffe import Class, Extension, Function, ParameterKind

_STARS = {ParameterKind.var_positional: "*", ParameterKind.var_keyword: "**"}


class Parameters(Extension):
    """Put the table behind the docstring."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Called once for each function and method."""
        if func.docstring is not None and func.name != "__init__":
            func.docstring.value += table(func)

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """A class is called with the parameters of its `__init__`."""
        init = cls.members.get("__init__")
        if cls.docstring is not None and isinstance(init, Function):
            cls.docstring.value += table(init)


def table(function: Function) -> str:
    """Each parameter with its type and its default; nothing for a function without parameters."""
    rows = []
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        stars = _STARS.get(parameter.kind, "")
        default = "" if parameter.default is None or stars else _code(parameter.default)
        rows.append(f"| {_code(stars + parameter.name)} | {_code(parameter.annotation)} | {default} |")
    if not rows:
        return ""
    return "\n\n| parameter | type | default |\n| --- | --- | --- |\n" + "\n".join(rows)


def _code(text: Any) -> str:
    return f"<code>{escape(str(text)).replace('|', '&#124;')}</code>" if text is not None else ""
