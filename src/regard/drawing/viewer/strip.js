// A vector as a strip of colours, one cell a number: blue is positive, brown negative. A number is read by pointing at
// its cell or with the arrow keys; all of them can be opened as a table.

import {colourTable} from "./colour.js";
import {asNumber, make, themeNow} from "./ui.js";

/** The largest absolute value of some vectors, for a scale that they share. */
export function largestOf(...vectors) {
  let most = 0;
  for (const vector of vectors) for (const value of vector) most = Math.max(most, Math.abs(value));
  return most || 1;
}

/** A strip. `name` names the vector; `most` is the value of the deepest colour; `part` = [start, stop] is outlined;
 *  `fade` (0 … 1) multiplies what is drawn; `tell(n or null)` hears which number is pointed at. */
export function strip(values, {name, most = largestOf(values), part = null, fade = 1, tell = null, thin = false}) {
  const canvas = make("canvas", {width: values.length, height: 1, "aria-hidden": "true"});
  const readout = make("output", {class: "readout"});
  const cursor = make("span", {class: "cursor", hidden: true});
  const box = make(
    "div",
    {
      class: thin ? "strip thin" : "strip",
      role: "slider",
      tabindex: 0,
      "aria-label": `${name}: ${values.length} numbers`,
      "aria-valuemin": 0,
      "aria-valuemax": values.length - 1,
      "aria-valuenow": 0,
      "aria-valuetext": `number 0: ${asNumber(values[0])}`,
      pointermove: event => show(at(event)),
      pointerdown: event => show(at(event)),
      pointerleave: () => show(null),
      blur: () => show(null),
      keydown: event => {
        const steps = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 16, PageDown: -16};
        const now = Number(box.getAttribute("aria-valuenow"));
        const next = event.key in steps ? now + steps[event.key] : {Home: 0, End: values.length - 1}[event.key];
        if (next === undefined) return;
        event.preventDefault();
        show(Math.min(Math.max(next, 0), values.length - 1));
      },
    },
    canvas,
    cursor,
  );
  if (part) {
    const frame = make("span", {class: "part"});
    frame.style.setProperty("--start", String(part[0] / values.length));
    frame.style.setProperty("--size", String((part[1] - part[0]) / values.length));
    box.append(frame);
  }

  function at(event) {
    const place = box.getBoundingClientRect();
    return Math.min(
      Math.max(Math.floor(((event.clientX - place.left) / place.width) * values.length), 0),
      values.length - 1,
    );
  }

  function show(n) {
    cursor.hidden = n === null;
    readout.textContent = n === null ? "" : `${n}: ${asNumber(values[n])}`;
    if (n !== null) {
      cursor.style.setProperty("--start", String(n / values.length));
      cursor.style.setProperty("--size", String(1 / values.length));
      box.setAttribute("aria-valuenow", String(n));
      box.setAttribute("aria-valuetext", `number ${n}: ${asNumber(values[n])}`);
    }
    tell?.(n);
  }

  function paint() {
    const [above, below] = ["high", "negative"].map(end => colourTable(themeNow(), end));
    const picture = new ImageData(values.length, 1);
    for (let n = 0; n < values.length; n++) {
      const shade = 3 * Math.round(255 * Math.min((fade * Math.abs(values[n])) / most, 1));
      picture.data.set((values[n] < 0 ? below : above).subarray(shade, shade + 3), 4 * n);
      picture.data[4 * n + 3] = 255;
    }
    canvas.getContext("2d").putImageData(picture, 0, 0);
  }

  paint();
  return {box, readout, paint, show, fade: share => ((fade = share), paint())};
}

/** A formula with its indices set low: "x W_Q". */
function formulaParts(text) {
  return text.split(/(_[A-Z])/).map(part => (/^_[A-Z]$/.test(part) ? make("sub", {}, part[1]) : part));
}

/** A strip under its name and formula, with its numbers to open. `said` is what stands at its right. */
export function vector(values, {name, formula = "", dimension = "", said = "", ...more}) {
  const made = strip(values, {name, ...more});
  const table = make("div", {class: "numbers", role: "group", tabindex: 0, "aria-label": `${name}, all numbers`});
  const opened = make(
    "details",
    {},
    make("summary", {}, "numbers", make("span", {class: "unseen"}, ` of ${name}`)),
    table,
  );
  opened.addEventListener("toggle", () => {
    if (!opened.open || table.childElementCount) return;
    table.append(...Array.from(values, value => make("span", {}, asNumber(value))));
  });
  const head = make(
    "div",
    {class: "vector-head"},
    make("b", {}, name),
    make("span", {class: "formula"}, ...formulaParts(formula)),
    make("span", {class: "quiet"}, dimension || `${values.length} numbers`),
    made.readout,
    said ? make("span", {class: "quiet"}, said) : null,
  );
  return {element: make("div", {class: "vector"}, head, made.box, opened), paint: made.paint};
}
