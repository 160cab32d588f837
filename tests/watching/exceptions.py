"""Where the rules that make configs small, choose classes and find inputs do not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CLASSES: dict[str, str] = {}
EXCEPTIONS: dict[str, dict[str, Any]] = {}
FEEDS: dict[str, dict[str, Callable[[Any], Any] | None]] = {}
