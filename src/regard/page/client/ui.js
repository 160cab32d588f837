// Small helpers of the page: elements without HTML strings, words and numbers as text, and a roving focus.

import {element as make, filled} from "./elements.js";

export {make};

const SVG_SPACE = "http://www.w3.org/2000/svg";

/** An element of an SVG with attributes and children. */
export function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

/** A button with attributes, one of which is `click`, and its label. */
export function button(attributes, ...label) {
  return make("button", {type: "button", ...attributes}, ...label);
}

const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const BLANKS = {"\n": "↵", "\t": "⇥"};

/** A word that is safe to show: control characters made visible, a very long word cut. */
export function shownWord(word, longest = 60) {
  const start = word.slice(0, 4 * longest);
  const shown = start.replace(UNSEEN, found => {
    const code = found.charCodeAt(0);
    if (found in BLANKS) return BLANKS[found];
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  const letters = [...shown];
  return letters.length > longest ? letters.slice(0, longest - 1).join("") + "…" : shown.trim() ? shown : "␣";
}

/** A share to a tenth of a per cent, as Python prints it. */
export function asPercent(share) {
  return Number.isNaN(share) ? "nan" : `${(100 * share).toFixed(1).replace(/\.0$/, "").replace(/^-0$/, "0")}\u00a0%`;
}

/** A number with about three digits, and a true minus. */
export function asNumber(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "∞" : "−∞";
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  return value
    .toFixed(digits)
    .replace(/^-(?=0\.?0*$)/, "")
    .replace("-", "−");
}

/** "1 head", "48 heads". */
export function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** One tab stop for many buttons: arrow keys move among them, Home and End go to the ends.
 *  `items()` lists them in order; `across` (a number, or a function) is how many are in a row. */
export function roving(root, items, across = () => 1) {
  function stop(at) {
    for (const [n, item] of items().entries()) item.tabIndex = n === at ? 0 : -1;
  }
  root.addEventListener("keydown", event => {
    const all = items();
    const now = all.indexOf(event.target.closest("button, [tabindex]"));
    if (now < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const wide = across();
    const rightwards = getComputedStyle(root).direction === "rtl" ? -1 : 1;
    const steps = {ArrowRight: rightwards, ArrowLeft: -rightwards, ArrowDown: wide, ArrowUp: -wide};
    let next = event.key in steps ? now + steps[event.key] : {Home: 0, End: all.length - 1}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    next = Math.min(Math.max(next, 0), all.length - 1);
    stop(next);
    all[next].focus();
  });
  root.addEventListener("focusin", event => {
    const at = items().indexOf(event.target.closest("button, [tabindex]"));
    if (at >= 0) stop(at);
  });
  return {reset: (at = 0) => stop(at)};
}

/** Put words [text, number] as buttons in place of the children of `box`; `chosen` is pressed, `choose(number)` is called. */
export function showWords(box, label, words, chosen, choose) {
  const focused = box.contains(document.activeElement);
  const row = make("div", {class: "pick-words", role: "group", "aria-label": label});
  const buttons = words.map(([text, n]) => {
    const state = {class: "pick", "aria-pressed": String(n === chosen), click: () => choose(n)};
    return button(state, make("bdi", {}, shownWord(text.trim())));
  });
  row.append(...buttons);
  box.replaceChildren(row);
  const at = Math.max(
    words.findIndex(([, n]) => n === chosen),
    0,
  );
  roving(row, () => buttons).reset(at);
  if (focused) buttons[at].focus();
}

/** Call `action` once, `wait` milliseconds after the last call. */
export function later(action, wait) {
  let timer = 0;
  const call = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(action, wait, ...values);
  };
  call.cancel = () => clearTimeout(timer);
  return call;
}

/** The theme on the screen: "light" or "dark". */
export function themeNow() {
  return (
    document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")
  );
}

/** A label that unfolds what it means; the meanings stand in index.html. */
export function meaning(term, label) {
  const text = document.getElementById(`meaning-${term}`).textContent;
  return make("details", {class: "meaning quiet"}, make("summary", {}, label), make("p", {}, text));
}
