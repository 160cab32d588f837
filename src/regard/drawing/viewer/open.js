// The start of a page that holds its own numbers: the map, and the address of its view.

import {element} from "./elements.js";
import {fileFeed} from "./feeds.js";
import {openMap} from "./map.js";

/** A view as the part of an address after "#", and back. */
export function viewToHash({x, y, z, layer, head, colour, cell}) {
  const values = {x: round(x), y: round(y), z: round(z), layer, head, colour, cell: cell?.join(",")};
  const known = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(known).toString();
}

export function hashToView(hash) {
  const values = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  const number = text => text === undefined || text === "" || text === "all" ? text : Number(text);
  const cell = values.cell?.split(",").map(Number);
  return {
    x: number(values.x), y: number(values.y), z: number(values.z),
    layer: number(values.layer), head: number(values.head), colour: values.colour,
    cell: cell?.length === 2 && cell.every(Number.isInteger) ? cell : null,
  };
}

function round(value) {
  return Number.isFinite(value) ? Number(value.toFixed(3)) : undefined;
}

/** Open the map of the numbers in this page. */
function openPage() {
  const about = JSON.parse(document.getElementById("regard-about").textContent), blocks = {};
  for (const script of document.querySelectorAll("script[data-block]")) {
    blocks[script.dataset.block] = {
      dtype: script.dataset.dtype, shape: script.dataset.shape.split(" ").map(Number), text: script.textContent,
    };
    script.remove();  // the text is kept once
  }
  const root = document.getElementById("regard-map"), inFrame = self !== top;
  document.body.prepend(element("h1", {}, about.title || "Attention map"));
  let written = "";
  const map = openMap(root, fileFeed({about, blocks}), {
    view: hashToView(location.hash), embedded: inFrame,
    onView(view) {
      if (inFrame) return;
      written = viewToHash(view);
      history.replaceState(null, "", `#${written}`);
    },
  });
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) !== written) map.setView(hashToView(location.hash));
  });
  globalThis.regardMap = map;
}

openPage();
