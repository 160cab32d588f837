"""Formulas: written in LaTeX, which notebooks and code hosts show, and turned into MathML for the site."""

from __future__ import annotations

import re
from html import unescape

from latex2mathml.converter import convert

# What pymdownx.arithmatex makes of $…$ and of $$…$$.
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


def typeset(html: str) -> str:
    """A page with its formulas as MathML, which every current browser sets without a script or a font.

    >>> typeset('<span class="arithmatex">\\\\(W_V x\\\\)</span>').count("<msub>")
    1
    """
    return _FORMULA.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    latex = unescape(found[2]).strip()
    if found[1] == "span":
        return convert(latex)
    return f'<div class="formula">{convert(latex, display="block")}</div>'
