// Unfold the steps: choose a word, a layer and a head, and walk through every number there.

import {getJson, kindsOf, query} from "./api.js";
import {kindInWords} from "./heads.js";
import {button, make, roving, shownWord} from "./ui.js";
import {walkOf} from "./walk.js";

const NEAR = 30; // words before and after the chosen word of a long text

/** The view "Steps" in `root`. */
export function openSteps(root, app) {
  const chooser = make("div", {class: "card chooser"});
  const body = make("div", {class: "steps-body"});
  root.append(chooser, body);
  let walk = null; // the walk on the page
  let shown = ""; // the name of its numbers
  let latest = 0;

  /** The step to unfold: as chosen, or the chosen word in the first chosen head, or the first word. */
  function chosen() {
    const {state, reading} = app;
    const {step} = state;
    if (step && isThere(step)) return step;
    const kind = kindsOf(reading).includes(state.kind) ? state.kind : kindsOf(reading)[0];
    const [name] = state.heads[kind] ?? [];
    const [entry, head] = name ? name.split(".").map(Number) : [reading.entries.findIndex(one => one.kind === kind), 0];
    const {rows, queries} = reading.entries[entry];
    const token = state.word?.side === rows ? state.word.token : 0;
    return {entry, head, side: rows, token: Math.min(token, queries - 1), key: null};
  }

  function isThere(step) {
    const entry = app.reading.entries[step.entry];
    return entry?.heads.includes(step.head) && entry.rows === step.side && step.token < entry.queries;
  }

  const go = patch => app.change({step: {...chosen(), ...patch}});

  async function update() {
    if (!app.reading?.entries.length) return;
    const step = chosen();
    const name = [app.reading.id, step.entry, step.head, step.token].join(" ");
    choose(step);
    if (name === shown) return refresh();
    const mine = ++latest;
    body.setAttribute("aria-busy", "true");
    try {
      const {entry, head, token} = step;
      const numbers = await getJson(query("/api/steps", {reading: app.reading.id, entry, head, token}));
      if (mine !== latest) return;
      shown = name;
      open(step, numbers);
    } catch (error) {
      if (mine === latest) app.trouble(error);
    } finally {
      if (mine === latest) body.removeAttribute("aria-busy");
    }
  }

  function open(step, numbers) {
    const entry = app.reading.entries[step.entry];
    const next = app.reading.entries.findIndex(one => one.kind === entry.kind && one.layer === entry.layer + 1);
    const on = () => {
      go({entry: next, key: null});
      root.scrollIntoView({block: "start"});
      chooser.querySelector('[aria-pressed="true"]')?.focus({preventScroll: true});
    };
    walk = walkOf(step, numbers, entry, {
      to: key => go({key}),
      divide: divisor => app.change({divisor}),
      on: next >= 0 ? on : null,
    });
    body.replaceChildren(...walk.elements);
    refresh();
  }

  const refresh = () => walk?.refresh(chosen().key, app.state.divisor);

  // Which word, layer and head

  function choose(step) {
    const focused = chooser.contains(document.activeElement) ? document.activeElement.dataset.choice : null;
    chooser.replaceChildren(wordsRow(step), selects(step));
    if (focused) chooser.querySelector(`[data-choice="${focused}"]:not([tabindex="-1"])`)?.focus();
  }

  function wordsRow(step) {
    const entry = app.reading.entries[step.entry];
    const side = app.reading.sides[entry.rows];
    const tokens = side.tokens.map((token, n) => [token, n]).filter(([, n]) => Math.abs(n - step.token) <= NEAR);
    const lang = app.codes[entry.rows === "source" ? 0 : 1] || null;
    const row = make("div", {class: "pick-words", role: "group", "aria-label": "The word to unfold", lang});
    for (const [token, n] of tokens.length ? tokens : [[`token ${step.token}`, step.token]]) {
      const now = n === step.token;
      const choice = {"data-choice": "word", "aria-pressed": String(now), tabindex: now ? 0 : -1};
      const pick = () => go({token: n, key: null});
      row.append(button({class: "pick", ...choice, click: pick}, make("bdi", {}, shownWord(token.trim()))));
    }
    roving(row, () => [...row.children]);
    return row;
  }

  function selects(step) {
    const {reading} = app;
    const entry = reading.entries[step.entry];
    const same = reading.entries.map((one, n) => [n, one]).filter(([, one]) => one.kind === entry.kind);
    const kinds = kindsOf(reading);
    const toKind = kind => {
      const n = reading.entries.findIndex(one => one.kind === kind);
      const to = reading.entries[n];
      const token = Math.min(to.rows === step.side ? step.token : 0, to.queries - 1);
      app.change({step: {entry: n, head: to.heads[0], side: to.rows, token, key: null}, kind});
    };
    const select = (label, options, value, change) => {
      const listed = options.map(([of, text]) => make("option", {value: of, selected: of === value}, String(text)));
      const attributes = {"data-choice": label, change: event => change(event.target.value)};
      return make("label", {class: "quiet"}, `${label} `, make("select", attributes, ...listed));
    };
    const kindNames = kinds.map(kind => [kind, kindInWords(kind)]);
    const attention = kinds.length > 1 ? select("attention", kindNames, entry.kind, toKind) : null;
    const layers = same.map(([n, one]) => [n, one.layer]);
    const layer = select("layer", layers, step.entry, n => go({entry: Number(n)}));
    const heads = entry.heads.map(head => [head, head]);
    const head = select("head", heads, step.head, number => go({head: Number(number)}));
    return make("div", {class: "selects"}, attention, layer, head);
  }

  return {
    onReading() {
      shown = "";
      if (app.state.tab === "steps") update();
    },
    update,
    onShow: update,
    onTheme: () => walk?.paints.forEach(paint => paint()),
    picture: () => body,
  };
}
