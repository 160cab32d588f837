"""A drawing as a page or as a notebook's output: offline, numbers on hover, words to click."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape

import numpy as np

from regard.drawing.svg import Canvas, Raster

__all__ = ["fragment", "page"]

_LEVELS = 65534  # of the numbers behind an image; one more stands for NaN

# Words carry data-pick, marks carry data-row, data-column and data-head: picking a word fades all other marks.
_SCRIPT = r"""
(function (root, rasters, labels) {
  const svg = root.querySelector("svg"), tip = root.querySelector(".regard-tip");
  const marks = [...svg.querySelectorAll("[data-mark]")], handles = [...svg.querySelectorAll("[data-pick]")];
  const said = new Map();
  for (const title of [...svg.querySelectorAll("title")]) {
    said.set(title.parentNode, title.textContent);
    title.remove();
  }
  let pinned = null;
  function show(handle) {
    for (const other of handles) other.style.fontWeight = other === handle ? "bold" : "";
    const [axis, place] = handle ? handle.dataset.pick.split(":") : [];
    for (const mark of marks) {
      mark.style.opacity = !handle ? "" : mark.dataset[axis] === place ? "1" : "0.04";
    }
  }
  for (const handle of handles) {
    handle.style.cursor = "pointer";
    handle.addEventListener("pointerenter", () => pinned || show(handle));
    handle.addEventListener("pointerleave", () => pinned || show(null));
    handle.addEventListener("click", () => { pinned = pinned === handle ? null : handle; show(pinned || handle); });
  }
  function number(raster, row, column) {
    const place = 2 * (row * raster.shape[1] + column);
    const level = raster.bytes.charCodeAt(place) + 256 * raster.bytes.charCodeAt(place + 1);
    const value = raster.low + (raster.high - raster.low) * level / LEVELS;
    return level > LEVELS ? "nan" : Math.abs(value) < 0.001 && value ? value.toExponential(1) : value.toPrecision(3);
  }
  for (const raster of rasters) raster.bytes = atob(raster.values);
  function text(event) {
    if (!(event.target instanceof Element)) return "";
    const place = event.target.dataset.raster;
    if (place === undefined) {
      for (let at = event.target; at && at !== root; at = at.parentNode) if (said.has(at)) return said.get(at);
      return "";
    }
    const raster = rasters[place], box = event.target.getBoundingClientRect();
    const spot = (from, size, count) => Math.min(Math.max(Math.floor(count * from / size), 0), count - 1);
    const row = spot(event.clientY - box.top, box.height, raster.shape[0]);
    const column = spot(event.clientX - box.left, box.width, raster.shape[1]);
    const names = [labels[raster.rows]?.[row], labels[raster.columns]?.[column]];
    return raster.name + "\n" + names.map(name => "\u2068" + name + "\u2069").join(" \u2192 ") + ": " +
      number(raster, row, column);
  }
  svg.addEventListener("pointermove", event => {
    const words = text(event);
    tip.hidden = !words;
    tip.textContent = words;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 4) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  const keep = root.querySelector(".regard-keep");
  if (keep) keep.addEventListener("click", () => {
    const copy = new Blob([new XMLSerializer().serializeToString(svg)], {type: "image/svg+xml"});
    const link = document.createElement("a");
    link.href = URL.createObjectURL(copy);
    link.download = "picture.svg";
    link.click();
  });
})
""".replace("LEVELS", str(_LEVELS))

_STYLE = (
    ".regard-tip{position:fixed;z-index:9;max-width:30em;padding:.3em .6em;border-radius:4px;pointer-events:none;"
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:60vh;overflow:hidden;font:14px sans-serif;"
    "background:INK;color:BACKGROUND}.regard-tip[hidden]{display:none}"
    ".regard-keep{display:block;margin-top:8px;font:12px sans-serif;color:MUTED;background:none;"
    "border:1px solid FAINT;border-radius:4px;padding:.2em .6em;cursor:pointer}"
    ".regard-picture svg{max-width:100%;height:auto}"
)


def fragment(svg: str, canvas: Canvas, keep: bool = False) -> str:
    """A drawing to embed in a page, with the script for hover and picking.

    >>> from regard.drawing.theme import LIGHT
    >>> fragment("<svg></svg>", Canvas(LIGHT)).startswith('<div class="regard-picture" id="regard-')
    True
    """
    theme = canvas.theme
    data = _json([_packed(raster) for raster in canvas.rasters], canvas.labels)
    # Named by its content: different pictures in a notebook stay apart, and the same picture gives the same bytes.
    name = "regard-" + hashlib.sha256((svg + data).encode("utf-8", "replace")).hexdigest()[:12]
    style = _STYLE.replace("INK", theme.ink).replace("BACKGROUND", theme.background)
    style = style.replace("MUTED", theme.muted).replace("FAINT", theme.faint)
    button = '<button class="regard-keep" type="button">Save as SVG</button>' if keep else ""
    every = f'for (const root of document.querySelectorAll("#{name}")) if (!root.wired) {{root.wired = true; look(root,'
    return (
        f'<div class="regard-picture" id="{name}"><style>{style}</style>{svg}\n{button}'
        f'<div class="regard-tip" hidden></div></div>\n'
        f"<script>{{const look = {_SCRIPT.strip()}; {every} {data});}}}}</script>\n"
    )


def page(svg: str, canvas: Canvas, title: str, transparent: bool = False) -> str:
    """A self-contained file, whose content security policy forbids any request.

    >>> from regard.drawing.theme import LIGHT
    >>> page("<svg></svg>", Canvas(LIGHT), "<it>").count("<title>&lt;it&gt;</title>")
    1
    """
    theme = canvas.theme
    background = "transparent" if transparent else theme.background
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title) or 'regard'}</title>\n"
        f"<style>body{{margin:24px;background:{background};color:{theme.ink}}}</style>\n</head>\n<body>\n"
        f"{fragment(svg, canvas, keep=True)}</body>\n</html>\n"
    )


def _packed(raster: Raster) -> dict[str, object]:
    """Two bytes for each number, between the smallest and the largest."""
    values = raster.values
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    share = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    levels = np.where(np.isnan(values), _LEVELS + 1, np.rint(share * _LEVELS)).astype("<u2")
    packed = base64.b64encode(levels.tobytes()).decode()
    shape = {"shape": values.shape, "low": low, "high": high, "rows": raster.rows, "columns": raster.columns}
    return {"name": raster.name, "values": packed} | shape


def _json(*values: object) -> str:
    """Values as the arguments of a call, safe inside a script element."""
    arguments = ", ".join(json.dumps(value) for value in values)
    return arguments.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
