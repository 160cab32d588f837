// The start of a page that holds its own numbers: the map, and the address of its view.

import {element} from "./elements.js";
import {fileFeed} from "./feeds.js";
import {openMap, textOfView, viewOfText} from "./map.js";

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
    view: viewOfText(location.hash.slice(1)), embedded: inFrame,
    onView(view) {
      if (inFrame) return;
      written = textOfView(view);
      history.replaceState(null, "", `#${written}`);
    },
  });
  addEventListener("hashchange", () => {
    if (location.hash.slice(1) !== written) map.setView(viewOfText(location.hash.slice(1)));
  });
  globalThis.regardMap = map;
}

openPage();
