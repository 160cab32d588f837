// Vectors as strips of colours, dot products, and the slider for the scale. Each cell of a strip is a number: blue is
// positive, brown negative. The pointer and the arrow keys show a number; a table lists all numbers.

import {colourTable} from "./colour.js";
import {asNumber, asPercent, button, make, themeNow} from "./ui.js";

/** The largest absolute value of some vectors, the scale that they share. */
export function largestOf(...vectors) {
  let most = 0;
  for (const vector of vectors) for (const value of vector) most = Math.max(most, Math.abs(value));
  return most || 1;
}

/** A strip, or a matrix of `across` columns. `name` names it; `most` is the value of the deepest colour; `part` = [start,
 *  stop] is outlined; `fade` (0 … 1) multiplies the colours; `tell(n or null)` is called when a number is pointed at;
 *  `said(n)` is what the pointer reads there. */
export function strip(values, {name, across = values.length, most = largestOf(values), part = null, fade = 1, ...more}) {
  const {tell = null, kind = "strip", said = n => `number ${n}: ${asNumber(values[n])}`} = more;
  const down = values.length / across;
  const canvas = make("canvas", {width: across, height: down, "aria-hidden": "true"});
  const readout = make("output", {class: "readout"});
  const cursor = make("span", {class: "cursor", hidden: true});
  const box = make(
    "div",
    {
      class: kind,
      role: "slider",
      tabindex: 0,
      "aria-label": `${name}: ${values.length} numbers`,
      "aria-valuemin": 0,
      "aria-valuemax": values.length - 1,
      "aria-valuenow": 0,
      "aria-valuetext": said(0),
      pointermove: event => show(at(event)),
      pointerdown: event => show(at(event)),
      pointerleave: () => show(null),
      blur: () => show(null),
      keydown: event => {
        const row = down > 1 ? across : -1;
        const steps = {ArrowRight: 1, ArrowUp: -row, ArrowLeft: -1, ArrowDown: row, PageUp: 16, PageDown: -16};
        const now = Number(box.getAttribute("aria-valuenow"));
        const next = event.key in steps ? now + steps[event.key] : {Home: 0, End: values.length - 1}[event.key];
        if (next === undefined) return;
        event.preventDefault();
        show(within(next, values.length));
      },
    },
    canvas,
    cursor,
  );
  const place = (mark, start, size, top = 0, tall = 1) => {
    const shares = Object.entries({start, size, top, tall});
    for (const [key, share] of shares) mark.style.setProperty(`--${key}`, String(share));
    return mark;
  };
  if (part) box.append(place(make("span", {class: "part"}), part[0] / across, (part[1] - part[0]) / across));

  const within = (n, count) => Math.min(Math.max(Math.floor(n), 0), count - 1);

  function at({clientX, clientY}) {
    const {left, top, width, height} = box.getBoundingClientRect();
    const row = within(((clientY - top) / height) * down, down);
    return row * across + within(((clientX - left) / width) * across, across);
  }

  function show(n) {
    cursor.hidden = n === null;
    readout.textContent = n === null ? "" : said(n);
    if (n !== null) {
      place(cursor, (n % across) / across, 1 / across, Math.floor(n / across) / down, 1 / down);
      box.setAttribute("aria-valuenow", String(n));
      box.setAttribute("aria-valuetext", said(n));
    }
    tell?.(n);
  }

  function paint() {
    const [above, below] = ["high", "negative"].map(end => colourTable(themeNow(), end));
    const picture = new ImageData(across, down);
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

/** A formula with subscripts: "x W_Q". */
export function formulaParts(text) {
  return text.split(/(_[A-Z])/).map(part => (/^_[A-Z]$/.test(part) ? make("sub", {}, part[1]) : part));
}

/** A strip under its name and formula, with its numbers to open. */
export function vector(values, {name, formula = "", ...more}) {
  const made = strip(values, {name, ...more});
  const table = make("div", {class: "numbers", role: "group", tabindex: 0, "aria-label": `${name}, all numbers`});
  const summary = make("summary", {class: "quiet"}, "numbers", make("span", {class: "regard-unseen"}, ` of ${name}`));
  const opened = make("details", {}, summary, table);
  opened.addEventListener("toggle", () => {
    if (!opened.open || table.childElementCount) return;
    table.append(...Array.from(values, value => make("span", {}, asNumber(value))));
  });
  const head = make(
    "div",
    {class: "vector-head"},
    make("b", {}, name),
    make("span", {class: "formula"}, ...formulaParts(formula)),
    make("span", {class: "quiet"}, `${values.length} numbers`),
    made.readout,
  );
  return {element: make("div", {class: "vector"}, head, made.box, opened), paint: made.paint};
}

const TERMS = 6; // of a dot product, in numbers; the rest can be opened
const SNAP = 0.015; // of the model's own divisor: the slider snaps to it

/** softmax of scores ÷ divisor, capped and biased as in the model, over the visible keys. */
function softmaxOf(scores, divisor, {visible, bias, softcap}) {
  const logits = scores.map((score, n) => (visible[n] ? capped(score / divisor, softcap) + bias[n] : -Infinity));
  const most = Math.max(...logits);
  const powers = logits.map(logit => (logit === -Infinity ? 0 : Math.exp(logit - most)));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map(power => (total ? power / total : 0));
}

function capped(logit, softcap) {
  return softcap ? softcap * Math.tanh(logit / softcap) : logit;
}

/** The bias that a model adds to scaled scores before the softmax, such as a bias by distance, computed from its weights. */
function biasOf({scaled, weights, visible, softcap}) {
  const found = scaled.map((value, n) =>
    visible[n] && weights[n] > 0 ? Math.log(weights[n]) - capped(value, softcap) : NaN,
  );
  const known = found.filter(value => !Number.isNaN(value));
  const most = Math.max(...known);
  const none = most - Math.min(...known) < 1e-2; // rounding
  return found.map(value => (none || Number.isNaN(value) ? 0 : value - most));
}

/** Entropy in bits: 0 if one word has all weight, log₂ n if n words have equal weights. */
function entropyOf(shares) {
  return shares.reduce((sum, share) => (share > 0 ? sum - share * Math.log2(share) : sum), 0);
}

/** A whole number, or any other number with three digits. */
export function wholeOr(value) {
  return Math.abs(value - Math.round(value)) < 1e-6 ? String(Math.round(value)) : asNumber(value);
}

/** The slider for the divisor, what it does to the shares, and the table of the softmax. `moved(divisor or null)` is
 *  called with its position; `set(divisor)` moves it; followers get the shares and whether they are the model's own. */
export function scaleControl(numbers, names, moved) {
  const own = 1 / numbers.scale;
  const largest = 2 * own;
  const rule = {visible: numbers.visible, softcap: numbers.softcap, bias: biasOf(numbers)};
  const followers = [];
  const move = () => {
    const divisor = Math.exp(Number(slider.value));
    moved(Math.abs(divisor / own - 1) < SNAP ? null : divisor);
  };
  const range = {type: "range", id: "divisor", min: 0, max: Math.log(largest), step: 0.001};
  const slider = make("input", {...range, "aria-label": "Divide the scores by", input: move});
  const said = make("output", {for: "divisor", class: "divisor"});
  const back = button({class: "link", click: () => moved(null)}, `back to ÷ ${wholeOr(own)}`);
  const figures = make("dl", {class: "figures"});
  const table = make("div", {class: "softmax-rows"});
  const cells = names.map((name, n) => {
    const [scaled, bar, share] = ["number", "bar", "number strong"].map(kind => make("span", {class: kind}));
    const ghost = make("span", {class: "ghost"});
    ghost.style.setProperty("--share", String(numbers.weights[n]));
    const row = [make("bdi", {class: "row-name"}, name), scaled, make("span", {class: "bars-over"}, bar, ghost), share];
    if (numbers.visible[n]) table.append(make("div", {class: "softmax-row"}, ...row));
    return {scaled, bar, share};
  });

  function set(divisor) {
    const same = Math.abs(divisor / own - 1) < 1e-6;
    const shares = same ? numbers.weights : softmaxOf(numbers.scores, divisor, rule);
    if (document.activeElement !== slider || same) slider.value = String(Math.log(divisor));
    slider.setAttribute("aria-valuetext", `÷ ${asNumber(divisor)}`);
    said.textContent = `÷ ${wholeOr(divisor)}${same && isRoot(own) ? ` = √${numbers.q.length}` : ""}`;
    back.hidden = same;
    showFigures(shares);
    cells.forEach((cell, n) => {
      if (!numbers.visible[n]) return;
      cell.scaled.textContent = asNumber(capped(numbers.scores[n] / divisor, numbers.softcap) + rule.bias[n]);
      cell.bar.style.setProperty("--share", String(shares[n]));
      cell.share.textContent = asPercent(shares[n]);
    });
    for (const follower of followers) follower(shares, same);
  }

  const isRoot = divisor => Math.abs(divisor / Math.sqrt(numbers.q.length) - 1) < 1e-6;

  function showFigures(shares) {
    const bits = entropyOf(shares);
    const best = shares.indexOf(Math.max(...shares));
    const figure = (name, value) => make("div", {}, make("dt", {class: "quiet"}, name), make("dd", {}, value));
    figures.replaceChildren(
      figure("largest share", make("bdi", {}, `${names[best]} ${asPercent(shares[best])}`)),
      figure("entropy", `${bits.toFixed(2)} bits`),
      figure("as if it looked at", `${(2 ** bits).toFixed(1)} words`),
    );
  }

  const ends = [1, largest].map(end => make("span", {}, `÷ ${wholeOr(end)}`));
  const under = make("div", {class: "slider-ends quiet", "aria-hidden": "true"}, ...ends);
  return {
    own,
    isRoot: isRoot(own),
    slider: make("div", {class: "slider"}, slider, said, back, under),
    figures,
    table,
    set,
    also: follower => followers.push(follower),
  };
}

/** One dot product: three strips over each other, the largest terms in numbers, and all of them to open. */
export function dotProduct(root, {q, k, score, names, most}, paints) {
  const terms = q.map((value, n) => value * k[n]);
  const line = make("p", {class: "term"});
  const sum = `${terms.length} products, summed: ${asNumber(score)}`;
  const equation = n => `${asNumber(q[n])} × ${asNumber(k[n])} = ${asNumber(terms[n])}`;
  const tell = n => (line.textContent = n === null ? sum : `term ${n}: ${equation(n)}`);
  const vectors = [[`q(${names[0]})`, q, most], [`k(${names[1]})`, k, most], ["q × k", terms, largestOf(terms)]];
  const rows = vectors.map(([name, values, deepest]) => {
    const made = strip(values, {name, most: deepest, tell});
    paints.push(made.paint);
    return make("div", {class: "product-row"}, make("bdi", {}, name), made.box);
  });
  const term = n => make("li", {}, equation(n), make("span", {class: "quiet"}, ` (${n})`));
  const listOf = places => make("ol", {class: "terms"}, ...Array.from(places, term));
  const order = terms.map((_, n) => n).sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]));
  tell(null);
  root.replaceChildren(
    make("h3", {}, make("bdi", {}, `q(${names[0]}) · k(${names[1]}) = ${asNumber(score)}`)),
    ...rows,
    line,
    make("p", {class: "quiet"}, "The largest terms:"),
    listOf(order.slice(0, TERMS)),
    make("details", {}, make("summary", {class: "quiet"}, `all ${terms.length} terms`), listOf(terms.keys())),
  );
}
