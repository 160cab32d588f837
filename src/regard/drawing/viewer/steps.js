// Unfold the steps: every number between a word and what leaves the layer, for one word in one head. The softmax is
// computed again in the page while its scale is moved.

import { getJson, query } from "./api.js";
import { kindInWords } from "./look.js";
import { largestOf, strip, vector } from "./strip.js";
import { asNumber, asPercent, make, roving, shownWord } from "./ui.js";
import { kindsOf } from "./answers.js";

const TERMS = 6; // of a dot product, in words; the rest can be opened

/** softmax of scores ÷ divisor, capped and biased as the model does, over the visible ones. */
export function softmaxOf(scores, divisor, { visible, bias, softcap }) {
  const logits = scores.map((score, n) => (visible[n] ? capped(score / divisor, softcap) + bias[n] : -Infinity));
  const most = Math.max(...logits);
  const powers = logits.map((logit) => (logit === -Infinity ? 0 : Math.exp(logit - most)));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => (total ? power / total : 0));
}

function capped(logit, softcap) {
  return softcap ? softcap * Math.tanh(logit / softcap) : logit;
}

/** What a model adds to scaled scores before the softmax, such as a bias by distance; it is in its weights. */
export function biasOf({ scaled, weights, visible, softcap }) {
  const found = scaled.map((value, n) => (visible[n] && weights[n] > 0 ? Math.log(weights[n]) - capped(value, softcap) : NaN));
  const known = found.filter((value) => !Number.isNaN(value));
  const spread = Math.max(...known) - Math.min(...known);
  return found.map((value) => (spread < 1e-2 || Number.isNaN(value) ? 0 : value - Math.max(...known)));
}

/** In bits: 0 where one word has everything, log₂ n where n words have the same. */
export function entropyOf(shares) {
  return shares.reduce((sum, share) => (share > 0 ? sum - share * Math.log2(share) : sum), 0);
}

/** The view "Steps" in `root`. */
export function openSteps(root, app) {
  const chooser = make("div", { class: "card chooser" });
  const body = make("div", { class: "steps-body" });
  root.append(chooser, body);
  let painted = []; // what is drawn again when the theme changes
  let latest = 0;
  let shown = ""; // which numbers are on the page

  /** What is unfolded: as was chosen, or the chosen word in the first chosen head, or the first word. */
  function chosen() {
    const { state, reading } = app;
    const { step } = state;
    if (step && valid(step)) return step;
    const kinds = kindsOf(reading);
    const kind = state.kind || kinds[0];
    const [name] = state.heads[kind] ?? [];
    const entry = name ? Number(name.split(".")[0]) : reading.entries.findIndex((one) => one.kind === kind);
    const { rows, queries } = reading.entries[entry];
    const token = state.word?.side === rows ? state.word.token : 0;
    return { entry, head: name ? Number(name.split(".")[1]) : 0, side: rows, token: Math.min(token, queries - 1), key: null };
  }

  function valid(step) {
    const entry = app.reading.entries[step.entry];
    return entry?.heads.includes(step.head) && entry.rows === step.side && step.token < entry.queries;
  }

  const go = (patch) => app.change({ step: { ...chosen(), ...patch } });

  async function update() {
    if (!app.reading) return;
    const step = chosen();
    const name = [app.reading.id, step.entry, step.head, step.token].join(" ");
    build(step);
    if (name === shown) return refresh(step);
    const mine = ++latest;
    body.setAttribute("aria-busy", "true");
    try {
      const numbers = await getJson(query("/api/steps", { reading: app.reading.id, entry: step.entry, head: step.head, token: step.token }));
      if (mine !== latest) return;
      shown = name;
      walk(step, numbers);
    } catch (error) {
      if (mine === latest) app.trouble(error);
    } finally {
      body.removeAttribute("aria-busy");
    }
  }

  // Which word, layer and head

  function build(step) {
    const { reading } = app;
    const entry = reading.entries[step.entry];
    const side = reading.sides[entry.rows];
    const words = side.words ?? side.tokens.map((token, n) => [token, n, n + 1]);
    const row = make("div", { class: "pick-words", role: "group", "aria-label": "The word to unfold", lang: (entry.rows === "source" ? app.codes[0] : app.codes[1]) || null });
    const near = words.length > 60 ? words.filter(([, start]) => Math.abs(start - step.token) < 30) : words;
    row.append(
      ...near.flatMap(([text, start, stop]) =>
        Array.from({ length: stop - start }, (_, n) => {
          const piece = stop - start > 1 ? side.tokens[start + n].replace(/^[▁Ġ]/, "") : text;
          const now = start + n === step.token;
          return make("button", { type: "button", class: "pick", "aria-pressed": String(now), tabindex: now ? 0 : -1, click: () => go({ token: start + n, key: null }) }, make("bdi", {}, shownWord(piece)));
        }),
      ),
    );
    roving(row, () => [...row.children]);
    const kinds = kindsOf(reading);
    const same = reading.entries.map((one, n) => [one, n]).filter(([one]) => one.kind === entry.kind);
    const select = (label, options, value, change) =>
      make("label", { class: "select" }, `${label} `, make("select", { change: (event) => change(event.target.value) }, ...options.map(([of, text]) => make("option", { value: of, selected: String(of) === String(value) }, text))));
    const toKind = (kind) => {
      const n = reading.entries.findIndex((one) => one.kind === kind);
      const to = reading.entries[n];
      const kept = to.rows === step.side ? step.token : 0;
      app.change({ step: { entry: n, head: to.heads[0], side: to.rows, token: Math.min(kept, to.queries - 1), key: null }, kind });
    };
    const focused = chooser.contains(document.activeElement) ? [...chooser.querySelectorAll("button, select")].indexOf(document.activeElement) : -1;
    const rowFocused = focused >= 0 && document.activeElement.classList.contains("pick");
    chooser.replaceChildren(
      row,
      make(
        "div",
        { class: "selects" },
        kinds.length > 1 ? select("attention of the", kinds.map((kind) => [kind, kindInWords(kind)]), entry.kind, toKind) : null,
        select("layer", same.map(([one, n]) => [n, one.layer]), step.entry, (n) => go({ entry: Number(n) })),
        select("head", entry.heads.map((head) => [head, head]), step.head, (head) => go({ head: Number(head) })),
      ),
    );
    if (rowFocused) row.querySelector('[aria-pressed="true"]')?.focus();
    else if (focused >= 0) chooser.querySelectorAll("button, select")[focused]?.focus();
  }

  // The walk

  let refresh = () => {};

  function walk(step, numbers) {
    painted = [];
    const keep = (made) => (painted.push(made.paint), made.element);
    const entry = app.reading.entries[step.entry];
    const word = shownWord(String(numbers.token)).replace(/^[▁Ġ]/, "") || "␣";
    const names = numbers.names.map((name) => shownWord(name).replace(/^[▁Ġ](?=.)/, ""));
    const of = (letter) => `${letter}(${word})`;
    const width = numbers.q.length;
    const root = Math.sqrt(width);
    let count = 0;
    const path = make("ol", { class: "path", "aria-label": "The steps" });
    const section = (short, title, text, ...parts) => {
      const number = make("span", { class: "step-number", "aria-hidden": "true" }, String(++count));
      const made = make("section", { class: "step card" }, make("h2", { tabindex: -1 }, number, title), make("p", {}, text), ...parts);
      const go = () => {
        made.scrollIntoView({ block: "start" });
        made.querySelector("h2").focus({ preventScroll: true });
      };
      path.append(make("li", {}, make("button", { type: "button", class: "link", click: go }, short)));
      return made;
    };
    const left = numbers.left_out ? make("p", { class: "quiet" }, `${names.length} words with the largest weights are listed; ${numbers.left_out.toLocaleString("en")} more share ${asPercent(Math.max(1 - numbers.weights.reduce((a, b) => a + b, 0), 0))}.`) : null;
    const missing = numbers.missing ? make("p", { class: "quiet" }, numbers.missing) : null;
    const sections = [];

    const place = (numbers.columns ?? names.map((_, n) => n)).indexOf(step.token);
    const self = entry.rows === entry.columns && place >= 0;
    if (numbers.x) {
      const parts = numbers.embedding
        ? [
            keep(vector(numbers.embedding.vector, { name: "embedding", formula: "the word's row of a learned table" })),
            keep(vector(numbers.embedding.position, { name: "position", formula: `place ${step.token}: sines and cosines` })),
          ]
        : [];
      const before = numbers.embedding
        ? `Its embedding, times ${asNumber(numbers.embedding.scale)}, and its position, added.`
        : entry.kind === "cross"
          ? "What the decoder's own attention made of what was written so far."
          : entry.layer
            ? `What layer ${entry.layer - 1} made of it.`
            : "What goes into this layer.";
      sections.push(section("vector", "The word as a vector", before, ...parts, keep(vector(numbers.x, { name: of("x"), formula: numbers.embedding ? `${asNumber(numbers.embedding.scale)} × embedding + position` : "" }))));
    }
    const most = largestOf(numbers.q, ...numbers.k);
    sections.push(
      section(
        "q, k, v",
        "Query, key, value",
        "Three learned matrices make three short vectors of it: what it asks, what it answers to, what it gives.",
        keep(vector(numbers.q, { name: of("q"), formula: "x W_Q", most })),
        ...(self ? [keep(vector(numbers.k[place], { name: of("k"), formula: "x W_K", most }))] : []),
        ...(self && numbers.v ? [keep(vector(numbers.v[place], { name: of("v"), formula: "x W_V" }))] : []),
        ...(self ? [] : [make("p", { class: "quiet" }, "Keys and values are those of the words that are looked at, below.")]),
      ),
    );

    const best = numbers.weights.indexOf(Math.max(...numbers.weights));
    const table = make("div", { class: "score-rows", role: "group", "aria-label": "Scores" });
    const product = make("div", { class: "product" });
    const largest = largestOf(numbers.scores.filter((_, n) => numbers.visible[n]));
    const rows = names.map((name, n) => {
      const key = strip(numbers.k[n], { name: `k(${name})`, most, thin: true });
      painted.push(key.paint);
      key.box.tabIndex = -1;
      const bar = make("span", { class: `bar ${numbers.scores[n] < 0 ? "negative" : ""}` });
      bar.style.setProperty("--share", String(Math.abs(numbers.scores[n]) / largest));
      const hidden = !numbers.visible[n];
      const open = make("button", { type: "button", class: "row-word", "aria-pressed": "false", disabled: hidden, click: () => go({ key: n }) }, make("bdi", {}, name));
      const row = make("div", { class: `score-row${hidden ? " hidden-word" : ""}` }, open, key.box, bar, make("span", { class: "number" }, hidden ? "hidden" : asNumber(numbers.scores[n])));
      table.append(row);
      return open;
    });
    roving(table, () => rows.filter((row) => !row.disabled));
    rows.find((row) => !row.disabled)?.setAttribute("tabindex", "0");
    sections.push(section("dot products", "Meet every word", `The score of a word is the dot product of q(${word}) and its key: large where they point the same way. Choose one to see it term by term.`, table, left, product));

    const scaled = scaleSteps(numbers, names);
    sections.push(section(`÷ √${width}`, `Divide by √${width} ${Number.isInteger(root) ? "=" : "≈"} ${wholeOr(root)}`, `A sum of ${width} products grows with √${width}. Undivided, one word would take nearly everything; divided, the shares stay soft. Move the slider to see it.`, scaled.slider, scaled.figures));
    sections.push(section("softmax", "Softmax: scores become shares", "e to the power of each score, divided by the sum of all: shares that add up to 100 %.", scaled.table));

    if (numbers.v && numbers.output) {
      const deepest = largestOf(...numbers.v);
      const list = make("div", { class: "sum-rows" });
      const order = names.map((_, n) => n).filter((n) => numbers.visible[n]).sort((a, b) => numbers.weights[b] - numbers.weights[a]);
      const faded = order.map((n) => {
        const made = strip(numbers.v[n], { name: `v(${names[n]})`, most: deepest, thin: true, fade: Math.sqrt(numbers.weights[n]) });
        painted.push(made.paint);
        const share = make("span", { class: "number" }, asPercent(numbers.weights[n]));
        list.append(make("div", { class: "sum-row" }, share, make("span", { class: "quiet" }, "×"), make("bdi", {}, `v(${names[n]})`), made.box));
        return [n, made, share];
      });
      const z = strip(numbers.output, { name: of("z") });
      painted.push(z.paint);
      scaled.also((shares, own) => {
        const sum = numbers.output.map((_, d) => shares.reduce((total, share, n) => total + share * numbers.v[n][d], 0));
        for (const [n, made, share] of faded) {
          made.fade(Math.sqrt(shares[n]));
          share.textContent = asPercent(shares[n]);
        }
        moved.hidden = own;
        moved.replaceChildren("With the divisor above, z would be: ", own ? "" : strip(sum, { name: of("z"), most: largestOf(numbers.output), thin: true }).box);
      });
      const moved = make("div", { class: "moved quiet", hidden: true });
      sections.push(section("weighted sum", "Weighted sum", `${of("z")} is a mixture of the values, in these shares.`, list, keep(vector(numbers.output, { name: of("z"), formula: "Σ share × v" })), moved));
    }
    if (numbers.joined) {
      const heads = Math.round(numbers.joined.length / numbers.output.length);
      const at = entry.heads.indexOf(step.head) * numbers.output.length;
      const mine = [at, at + numbers.output.length];
      sections.push(
        section(
          "heads joined",
          "Heads joined",
          `All ${heads} heads stand side by side; this one is outlined. One more matrix mixes them, and the word itself is added.`,
          keep(vector(numbers.joined, { name: "z of all heads", part: mine })),
          ...(numbers.projected ? [keep(vector(numbers.projected, { name: "mixed", formula: numbers.formulas?.projected ?? "z W_O" }))] : []),
          ...(numbers.residual ? [keep(vector(numbers.residual, { name: "with the word itself", formula: numbers.formulas?.residual ?? "x + z W_O" }))] : []),
          ...(numbers.normed ? [keep(vector(numbers.normed, { name: "normed", formula: numbers.formulas?.normed ?? "mean 0, spread 1, then scaled" }))] : []),
        ),
      );
    }
    if (numbers.hidden) {
      sections.push(
        section(
          "feed-forward",
          "Feed-forward",
          "Each word on its own: a wider layer, an activation, and back.",
          keep(vector(numbers.hidden, { name: "hidden", formula: numbers.formulas?.hidden ?? "activation(n W₁ + b₁)" })),
          ...(numbers.fed ? [keep(vector(numbers.fed, { name: "fed", formula: numbers.formulas?.fed ?? "hidden W₂ + b₂" }))] : []),
        ),
      );
    }
    const following = app.reading.entries.findIndex((one) => one.kind === entry.kind && one.layer === entry.layer + 1);
    if (numbers.next) {
      const on = following >= 0 ? make("button", { type: "button", class: "primary", click: () => (go({ entry: following, key: null }), chooser.scrollIntoView({ block: "start" })) }, `Walk on into layer ${entry.layer + 1} →`) : make("p", { class: "quiet" }, "This is the last layer.");
      sections.push(section("next layer", "What leaves the layer", following >= 0 ? `It goes into layer ${entry.layer + 1}, where it is asked again.` : "It leaves the stack.", keep(vector(numbers.next, { name: `${word}, after layer ${entry.layer}` })), on));
    }
    body.replaceChildren(path, ...sections, ...(missing ? [make("div", { class: "step card" }, missing)] : []));

    refresh = (now) => {
      const key = now.key !== null && numbers.visible[now.key] ? now.key : best;
      rows.forEach((row, n) => row.setAttribute("aria-pressed", String(n === key)));
      dotProduct(product, numbers.q, numbers.k[key], numbers.scores[key], word, names[key], most, painted);
      scaled.set(app.state.divisor ?? 1 / numbers.scale);
    };
    refresh(step);
  }

  /** The slider for the scale, what it does to the shares, and the table of the softmax. */
  function scaleSteps(numbers, names) {
    const own = 1 / numbers.scale;
    const rule = { visible: numbers.visible, softcap: numbers.softcap, bias: biasOf(numbers) };
    const largest = 2 * own;
    const followers = [];
    const slider = make("input", { type: "range", id: "divisor", min: 0, max: Math.log(largest), step: 0.001, value: Math.log(own), "aria-label": "Divide the scores by", input: () => move(Math.exp(Number(slider.value))) });
    const said = make("output", { for: "divisor", class: "divisor" });
    const reset = make("button", { type: "button", class: "link", click: () => app.change({ divisor: null }) }, `back to √${numbers.q.length}`);
    const figures = make("dl", { class: "figures" });
    const table = make("div", { class: "softmax-rows" });
    const cells = names.map((name, n) => {
      const bar = make("span", { class: "bar" });
      const ghost = make("span", { class: "ghost" });
      ghost.style.setProperty("--share", String(numbers.weights[n]));
      const parts = { scaled: make("span", { class: "number" }), bar, share: make("span", { class: "number strong" }) };
      if (numbers.visible[n]) table.append(make("div", { class: "softmax-row" }, make("bdi", { class: "row-name" }, name), parts.scaled, make("span", { class: "bars-over" }, bar, ghost), parts.share));
      return parts;
    });

    function move(divisor) {
      const near = Math.abs(divisor / own - 1) < 0.015;
      app.change({ divisor: near ? null : divisor });
    }

    function set(divisor) {
      const same = Math.abs(divisor / own - 1) < 1e-6;
      const shares = same ? numbers.weights : softmaxOf(numbers.scores, divisor, rule);
      if (document.activeElement !== slider || same) slider.value = String(Math.log(divisor));
      slider.setAttribute("aria-valuetext", `÷ ${asNumber(divisor)}`);
      said.textContent = `÷ ${wholeOr(divisor)}${same ? ` = √${numbers.q.length}` : ""}`;
      reset.hidden = same;
      const bits = entropyOf(shares);
      const [top] = shares.map((share, n) => [share, n]).sort((a, b) => b[0] - a[0]);
      const figure = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
      figures.replaceChildren(
        figure("largest share", `${names[top[1]]} ${asPercent(top[0])}`),
        figure("entropy", `${bits.toFixed(2)} bits`),
        figure("as if it looked at", `${(2 ** bits).toFixed(1)} words`),
      );
      cells.forEach((cell, n) => {
        if (!numbers.visible[n]) return;
        cell.scaled.textContent = asNumber(capped(numbers.scores[n] / divisor, numbers.softcap) + rule.bias[n]);
        cell.bar.style.setProperty("--share", String(shares[n]));
        cell.share.textContent = asPercent(shares[n]);
      });
      for (const follower of followers) follower(shares, same);
    }
    const ends = make("div", { class: "slider-ends quiet", "aria-hidden": "true" }, make("span", {}, "÷ 1"), make("span", {}, `÷ ${wholeOr(largest)}`));
    return { slider: make("div", { class: "slider" }, slider, said, reset, ends), figures, table, set, also: (follower) => followers.push(follower) };
  }

  return {
    onReading() {
      shown = "";
      if (app.state.tab === "steps") update();
    },
    update,
    onShow: () => update(),
    onTheme: () => painted.forEach((paint) => paint()),
    picture: () => body,
  };
}

function wholeOr(value) {
  return Math.abs(value - Math.round(value)) < 1e-6 ? String(Math.round(value)) : asNumber(value);
}

/** One dot product, term by term: three strips over each other, the largest terms in numbers, and all of them to open. */
function dotProduct(root, q, k, score, word, other, most, painted) {
  const terms = q.map((value, n) => value * k[n]);
  const line = make("p", { class: "term" });
  const say = (n) => (line.textContent = n === null ? sum : `term ${n}: ${asNumber(q[n])} × ${asNumber(k[n])} = ${asNumber(terms[n])}`);
  const sum = `${terms.length} products, summed: ${asNumber(score)}`;
  const parts = [[`q(${word})`, q, most], [`k(${other})`, k, most], ["q × k", terms, largestOf(terms)]].map(([name, values, deepest]) => {
    const made = strip(values, { name, most: deepest, tell: say });
    painted.push(made.paint);
    return make("div", { class: "product-row" }, make("bdi", {}, name), made.box);
  });
  const order = terms.map((_, n) => n).sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]));
  const term = (n) => make("li", {}, `${asNumber(q[n])} × ${asNumber(k[n])} = ${asNumber(terms[n])}`, make("span", { class: "quiet" }, ` (${n})`));
  const shown = make("ol", { class: "terms" }, ...order.slice(0, TERMS).map(term));
  const rest = make("details", {}, make("summary", {}, `all ${terms.length} terms`), make("ol", { class: "terms", start: 0 }, ...terms.map((_, n) => term(n))));
  say(null);
  root.replaceChildren(make("h3", {}, make("bdi", {}, `q(${word}) · k(${other}) = ${asNumber(score)}`)), ...parts, line, make("p", { class: "quiet" }, "The largest terms:"), shown, rest);
}
