// The map of a reading, fed by the server: opened when its tab is first shown.

import { make } from "./ui.js";

/** The view "Map" in `root`. */
export function openMapTab(root, app) {
  let opened = null; // {id, map}
  let writing = false; // the view came from the map itself

  async function show() {
    if (!app.reading || app.state.tab !== "map") return;
    if (opened?.id === app.reading.id) return;
    opened?.map.close();
    const box = make("div", { class: "map-box" });
    root.replaceChildren(box);
    const [{ openMap }, { serverFeed }] = await Promise.all([import("./map.js"), import("./feeds.js")]);
    const feed = await serverFeed(app.reading);
    const map = await openMap(box, feed, {
      view: parsed(app.state.map),
      onView: (view) => {
        writing = true;
        app.change({ map: JSON.stringify(view) });
        writing = false;
      },
    });
    opened = { id: app.reading.id, map };
  }

  function parsed(text) {
    try {
      return text ? JSON.parse(text) : undefined;
    } catch {
      return undefined; // an address that was cut off
    }
  }

  return {
    onReading: () => show().catch(app.trouble),
    onShow: () => show().catch(app.trouble),
    update(patch) {
      if (writing || !("map" in patch)) return;
      const view = parsed(app.state.map);
      if (opened && view) opened.map.setView(view);
    },
    map: () => opened?.map,
    picture: () => root,
  };
}
