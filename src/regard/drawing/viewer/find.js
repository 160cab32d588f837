// Find a word and follow it, as one that looks (a row) or one that is looked at (a column).

import {element} from "./elements.js";

/** A form; `follow(side, place, places)` is called with each place in turn, place null when there is none. */
export function findBox(feed, follow) {
  let places = [], current = 0, asked = "";
  const input = element("input", {
    type: "search", autocomplete: "off", spellcheck: "false", placeholder: "Find a word", "aria-label": "Find a word",
  });
  const side = element("select", {"aria-label": "Where to find it", change: () => search()},
    element("option", {value: "rows"}, "that looks"), element("option", {value: "columns"}, "that is looked at"));
  const count = element("output", {class: "map-count"});
  const step = (by, label, text) => element("button", {
    type: "button", "aria-label": label, title: label, disabled: true, click: () => go(by),
  }, text);
  const before = step(-1, "The place before", "↑"), after = step(1, "The next place", "↓");
  const form = element("form", {class: "map-find", role: "search", submit(event) {
    event.preventDefault();
    if (`${side.value} ${input.value}` === asked && places.length) go(1);
    else search();
  }}, input, side, before, after, count);
  input.addEventListener("search", () => input.value || clear());

  async function search() {
    const text = input.value.trim();
    asked = `${side.value} ${input.value}`;
    if (!text) {
      clear();
      return;
    }
    count.textContent = "…";
    places = await feed.find(side.value, text).catch(() => []);
    current = 0;
    show();
  }

  function go(by) {
    current = (current + by + places.length) % places.length;
    show();
  }

  function show() {
    before.disabled = after.disabled = places.length < 2;
    count.textContent = places.length ? `${current + 1} of ${places.length.toLocaleString("en")}` : "not found";
    follow(side.value, places.length ? places[current] : null, places);
  }

  function clear() {
    [places, asked] = [[], ""];
    input.value = count.textContent = "";
    before.disabled = after.disabled = true;
    follow(side.value, null, []);
  }

  return {form, clear};
}
