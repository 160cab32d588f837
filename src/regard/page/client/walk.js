// The walk through one layer, for one word in one head: every number from the vector that enters to the vector that leaves.
// Each step is a section.

import {dotProduct, largestOf, scaleControl, strip, vector, wholeOr} from "./strips.js";
import {asNumber, asPercent, button, counted, make, meaning, roving, shownWord} from "./ui.js";

/** The sections of a walk. `go.to(key)` opens a dot product, `go.divide(divisor or null)` moves the scale, `go.on()`
 *  walks on into the next layer (null: there is none). Returns the elements, the functions that paint again when the theme
 *  changes, and `refresh(key, divisor)`. */
export function walkOf(step, numbers, entry, go) {
  const paints = [];
  const place = numbers.columns.indexOf(step.token);
  const walk = {
    ...{step, numbers, entry, go, paints},
    word: tokenShown(numbers.token),
    names: numbers.names.map(tokenShown),
    own: entry.rows === entry.columns && place >= 0 ? place : null, // where the word itself is among the keys
    most: largestOf(numbers.q, ...numbers.k),
    shown: (values, options) => {
      const made = vector(values, options);
      paints.push(made.paint);
      return made.element;
    },
    thin: (values, options) => {
      const made = strip(values, {...options, kind: "strip thin"});
      paints.push(made.paint);
      return made;
    },
  };
  const scale = scaleControl(numbers, walk.names, go.divide);
  const scores = scoresStep(walk);
  const steps = [
    inputStep(walk),
    projectionStep(walk),
    scores.step,
    ...scaleSteps(walk, scale),
    sumStep(walk, scale),
    joinStep(walk),
    feedStep(walk),
    lastStep(walk),
  ].filter(Boolean);
  let feed = null;
  const path = make("ol", {class: "path", "aria-label": "The steps"});
  const sections = steps.map(({short, title, text, parts}, n) => {
    const number = make("span", {class: "step-number", "aria-hidden": "true"}, String(n + 1));
    const heading = make("h2", {tabindex: -1}, number, title);
    const section = make("section", {class: "step card"}, heading, make("p", {}, text), ...parts);
    const scroll = () => {
      section.scrollIntoView({block: "start"});
      heading.focus({preventScroll: true});
    };
    path.append(make("li", {}, button({class: "link", click: scroll}, short)));
    if (short === "feed-forward") feed = scroll;
    return section;
  });
  const said = numbers.missing.slice(0, 1).toUpperCase() + numbers.missing.slice(1);
  const missing = said ? [make("p", {class: "step card quiet"}, said)] : [];
  return {
    elements: [path, ...sections, ...missing],
    paints,
    toFeed: () => feed?.(),
    refresh(key, divisor) {
      scores.open(key);
      scale.set(divisor ?? scale.own);
    },
  };
}

function tokenShown(token) {
  const text = String(token);
  return shownWord(text.trim() ? text.replace(/^[▁Ġ\s]+(?=.)/, "") : text);
}

function inputStep({numbers, step, entry, word, shown}) {
  if (!numbers.x) return null;
  const {embedding} = numbers;
  const own = entry.layer ? `What layer ${entry.layer - 1} made of it.` : "What goes into this layer.";
  const before = entry.kind === "cross" ? "What the decoder's own attention made of what was written so far." : own;
  const added = embedding && `${asNumber(embedding.scale)} × embedding + position`;
  const parts = embedding
    ? [
        shown(embedding.vector, {name: "embedding", formula: "the word's row of a learned table"}),
        shown(embedding.position, {name: "position", formula: `place ${step.token}: sines and cosines`}),
      ]
    : [];
  return {
    short: "vector",
    title: "The word as a vector",
    text: embedding ? `Its embedding, times ${asNumber(embedding.scale)}, and its position, added.` : before,
    parts: [
      meaning("strips", "How to read a strip"),
      ...parts,
      shown(numbers.x, {name: `x(${word})`, formula: added || ""}),
    ],
  };
}

function projectionStep({numbers, own, word, most, shown}) {
  const parts = [shown(numbers.q, {name: `q(${word})`, formula: numbers.x ? numbers.formulas.q : "", most})];
  if (own === null) {
    parts.push(make("p", {class: "quiet"}, "Keys and values are those of the words that are looked at, below."));
  } else {
    parts.push(shown(numbers.k[own], {name: `k(${word})`, formula: numbers.x ? numbers.formulas.k : "", most}));
    if (numbers.v) parts.push(shown(numbers.v[own], {name: `v(${word})`, formula: numbers.formulas.v}));
  }
  return {
    short: "q, k, v",
    title: "Query, key, value",
    text: "Learned matrices make three short vectors of it: what it asks, what it answers to, what it gives.",
    parts,
  };
}

/** The scores of all words, and the dot product of one word. */
function scoresStep({numbers, names, word, most, thin, paints, go}) {
  const {q, k, scores, visible, weights} = numbers;
  const seen = names.map((_, n) => n).filter(n => visible[n]);
  const largest = largestOf(seen.map(n => scores[n]));
  const table = make("div", {class: "score-rows", role: "group", "aria-label": "Scores"});
  const product = make("div", {class: "product"});
  const buttons = seen.map(n => {
    const key = thin(k[n], {name: `k(${names[n]})`, most});
    key.box.tabIndex = -1; // the dot product below shows it too
    const bar = make("span", {class: scores[n] < 0 ? "bar negative" : "bar"});
    bar.style.setProperty("--share", String(Math.abs(scores[n]) / largest));
    const choose = {class: "row-word", "aria-pressed": "false", tabindex: -1, click: () => go.to(n)};
    const chooser = button(choose, make("bdi", {}, names[n]));
    const score = make("span", {class: "number"}, asNumber(scores[n]));
    table.append(make("div", {class: "score-row"}, chooser, key.box, bar, score));
    return chooser;
  });
  roving(table, () => buttons).reset();
  const best = weights.indexOf(Math.max(...weights));
  const hidden = names.length - seen.length;
  const rest = Math.max(1 - weights.reduce((sum, weight) => sum + weight, 0), 0);
  const left = hidden ? [`${counted(hidden, "word")} may not be seen from here: the mask hides them.`] : [];
  const others = counted(numbers.left_out, "other");
  if (numbers.left_out) left.push(`These have the largest weights; ${others} share ${asPercent(rest)}.`);
  return {
    step: {
      short: "dot products",
      title: "Meet every word",
      text:
        `The score of a word is the dot product of q(${word}) and its key: large where they point the same way. ` +
        "Choose one to see it term by term.",
      parts: [table, make("p", {class: "quiet"}, left.join(" ")), product],
    },
    open(wanted) {
      const key = wanted !== null && visible[wanted] ? wanted : best;
      buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(seen[n] === key)));
      dotProduct(product, {q, k: k[key], score: scores[key], names: [word, names[key]], most}, paints);
    },
  };
}

function scaleSteps({numbers}, scale) {
  const width = numbers.q.length;
  const root = Math.sqrt(width);
  const equal = Number.isInteger(root) ? "=" : "≈";
  return [
    {
      short: scale.isRoot ? `÷ √${width}` : `÷ ${wholeOr(scale.own)}`,
      title: scale.isRoot ? `Divide by √${width} ${equal} ${wholeOr(root)}` : `Divide by ${wholeOr(scale.own)}`,
      text:
        `The spread of a sum of ${width} products grows with √${width}. Undivided, the largest score tends to take ` +
        "nearly everything; divided, the shares stay soft. Move the slider to see it.",
      parts: [scale.slider, scale.figures],
    },
    {
      short: "softmax",
      title: "Softmax: scores become shares",
      text: "e to the power of each score, divided by the sum of all: shares that add up to 100 %.",
      parts: [meaning("ticks", "What is the tick on a bar?"), scale.table],
    },
  ];
}

/** The sum of the values times their shares, which follow the slider. */
function sumStep({numbers, names, word, shown, thin}, scale) {
  const {v, output, weights, visible} = numbers;
  if (!v || !output) return null;
  const most = largestOf(...v);
  const list = make("div", {class: "sum-rows"});
  const order = names.map((_, n) => n).filter(n => visible[n]);
  order.sort((a, b) => weights[b] - weights[a]);
  const rows = order.map(n => {
    const made = thin(v[n], {name: `v(${names[n]})`, most, fade: Math.sqrt(weights[n])});
    const share = make("span", {class: "number"}, asPercent(weights[n]));
    const times = make("span", {class: "quiet"}, "×");
    list.append(make("div", {class: "sum-row"}, share, times, make("bdi", {}, `v(${names[n]})`), made.box));
    return {n, made, share};
  });
  const moved = make("div", {class: "moved quiet", hidden: true});
  scale.also((shares, own) => {
    for (const {n, made, share} of rows) {
      made.fade(Math.sqrt(shares[n]));
      share.textContent = asPercent(shares[n]);
    }
    moved.hidden = own;
    if (own) return;
    const sum = output.map((_, d) => shares.reduce((total, share, n) => total + share * v[n][d], 0));
    const would = strip(sum, {name: `z(${word}) with this divisor`, most: largestOf(output), kind: "strip thin"});
    moved.replaceChildren("With the divisor above, z would be:", would.box);
  });
  return {
    short: "weighted sum",
    title: "Weighted sum",
    text: `z(${word}) is a mixture of the values, in these shares.`,
    parts: [list, shown(output, {name: `z(${word})`, formula: "Σ share × v"}), moved],
  };
}

function joinStep({numbers, entry, step, shown}) {
  const {joined, output, formulas} = numbers;
  if (!joined) return null;
  const start = entry.heads.indexOf(step.head) * output.length;
  return {
    short: "heads joined",
    title: "Heads joined",
    text:
      `All ${Math.round(joined.length / output.length)} heads stand side by side; this one is outlined. One more matrix ` +
      "mixes them, and the word itself is added: the residual connection, past which nothing is lost.",
    parts: ["joined", "projected", "residual", "normed"]
      .filter(name => numbers[name])
      .map(name => {
        const part = name === "joined" ? [start, start + output.length] : null;
        return shown(numbers[name], {name, formula: formulas[name], part});
      }),
  };
}

function feedStep({numbers, shown}) {
  const {hidden, fed, formulas} = numbers;
  if (!hidden) return null;
  return {
    short: "feed-forward",
    title: "Feed-forward",
    text: "Each word on its own: a wider layer, an activation, and back.",
    parts: Object.entries({hidden, fed}).map(([name, values]) => shown(values, {name, formula: formulas[name]})),
  };
}

function lastStep({numbers, entry, word, shown, go}) {
  if (!numbers.next) return null;
  const on = go.on
    ? button({class: "primary", click: go.on}, `Walk on into layer ${entry.layer + 1} →`)
    : make("p", {class: "quiet"}, "This is the last layer.");
  const next = go.on ? `It goes into layer ${entry.layer + 1}, where it is asked again.` : "It leaves the stack.";
  const between = numbers.hidden ? next : "It goes on to the cross-attention of this layer.";
  return {
    short: numbers.hidden ? "next layer" : "cross-attention",
    title: numbers.hidden ? "What leaves the layer" : "What leaves this attention",
    text: between,
    parts: [shown(numbers.next, {name: `${word}, after layer ${entry.layer}`, formula: numbers.formulas.next}), on],
  };
}
