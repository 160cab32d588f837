// Translate and look: the words and their lines, what a word looks at in numbers, and the heads that are looked through.
// While a word is pointed at, everything is computed from weights that are already here.

import { openHeads } from "./heads.js";
import { Stage, unitsOf } from "./stage.js";
import { asPercent, counted, later, make, shownWord } from "./ui.js";
import { answerOf, headOf, headsBetween, headsOf, kindsOf, setsAside } from "./answers.js";

const MOST_WORDS = 300; // of a side at once; the map shows texts of any length
const LISTED = 6; // words of an answer
const RANKED = 4; // heads of a ranking
const OVERVIEW = 0.12; // weights from here on are drawn while no word is chosen

const KINDS_SAID = {
  encoder: "Words of the source look at each other: the encoder.",
  cross: "Each written word looks at the source: cross-attention.",
  decoder: "Each written word looks at the ones before it: the decoder.",
  own: "The words of the text look at each other.",
};

/** The view "Look" in `root`. */
export function openLook(root, app) {
  const spoken = make("p", { class: "unseen", role: "status" });
  const answer = make("div", { class: "card answer" });
  const left = make("div", { class: "look-left" });
  const right = make("div", { class: "card heads" });
  const notes = make("p", { class: "quiet notes" });
  root.append(make("div", { class: "look-grid" }, left, right), spoken);
  let over = null; // the word that is pointed at
  let preview = null; // the name of the head that is pointed at
  let from = 0; // the first word that is shown
  const stage = new Stage(make("div", { class: "card stage-card" }), {
    over: (unit) => unit !== over && ((over = unit), draw()),
    pick,
    laidOut: () => draw(),
  });
  left.append(stage.root.parentElement, answer, notes);
  const heads = openHeads(right, app, (name) => name !== preview && ((preview = name), draw()));
  const speak = later((text) => (spoken.textContent = text), 400);

  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && app.state.word) app.change({ word: null, to: null });
  });

  function pick(unit) {
    app.change({ word: pinned() === unit ? null : placeOfUnit(unit), to: null, kind: kindFor(unit) });
  }

  function pinned() {
    const word = app.state.word;
    return (word && stage.units.find((unit) => unit.side === word.side && unit.range[0] <= word.token && word.token < unit.range[1])) || null;
  }

  /** The kind of attention that a word is asked about: the listed one where it has that. */
  function kindFor(unit) {
    const kinds = Object.keys(unit.rows);
    return kinds.includes(app.state.kind) ? app.state.kind : kinds[0];
  }

  function chosenHeads(kind) {
    if (preview && app.reading.entries[headOf(preview)[0]].kind === kind) return [preview];
    return heads.chosen(kind);
  }

  /** What one word looks at: its lines, and the answer behind them. */
  function looksOf(unit, kind, names) {
    const rows = unit.rows[kind];
    const row = rows && app.weights.mean(names, rows);
    if (!row) return null;
    const entry = app.reading.entries[headOf(names[0])[0]];
    const side = app.reading.sides[entry.columns];
    const words = side.words ?? (side.tokens.length ? side.tokens : Array.from(row, (_, n) => String(n))).map((token, n) => [token, n, n + 1]);
    const found = answerOf(row, words, entry.sinks ?? [], setsAside(app.state.sinks, names), !app.weights.dense);
    const byColumn = new Map(stage.units.filter((one) => one.columns[kind]).map((one) => [one.columns[kind][0], one]));
    const lines = found.found.map((look) => ({ from: unit, to: byColumn.get(look.start), weight: look.weight, kind })).filter((line) => line.to);
    const aside = found.aside.map((sink) => ({ ...sink, unit: byColumn.get(sink.position), text: shownWord(side.tokens[sink.position] ?? `token ${sink.position}`).replace(/^[▁Ġ]/, "") }));
    return { ...found, aside, lines };
  }

  function draw() {
    if (!app.reading || !stage.units.length) return;
    const word = over && stage.units.includes(over) ? over : pinned();
    const kind = word ? kindFor(word) : preview ? app.reading.entries[headOf(preview)[0]].kind : app.state.kind;
    root.dataset.kind = app.state.kind;
    const names = chosenHeads(kind);
    const looks = word && names.length ? looksOf(word, kind, names) : null;
    if (word && names.length && !looks && !app.weights.dense) {
      app.weights.fetchMean(names, word.rows[kind], columnsShown(kind)).then(() => word === (over ?? pinned()) && draw(), app.trouble);
    }
    const by = word ? lookedAtBy(word) : [];
    if (word) stage.draw([...(looks?.lines ?? []), ...by], word, kind, looks?.aside ?? []);
    else stage.draw(overview(kind, names), null, kind, []);
    for (const unit of stage.units) unit.element.setAttribute("aria-pressed", String(unit === pinned()));
    showAnswer(word, kind, names, looks, by);
  }

  /** The words of the translation that looked at a word of the source: faint lines. */
  function lookedAtBy(word) {
    const names = word.side === "source" && app.reading.sides.target && app.weights.dense ? chosenHeads("cross") : [];
    if (!names.length) return [];
    const lines = stage.units.flatMap((unit) => looksOf(unit, "cross", names)?.lines.filter((line) => line.to === word) ?? []);
    return lines.filter((line) => line.weight >= OVERVIEW).map((line) => ({ ...line, faint: true }));
  }

  function columnsShown(kind) {
    const places = stage.units.flatMap((unit) => unit.columns[kind] ?? []);
    return [Math.min(...places), Math.max(...places)];
  }

  function overview(kind, names) {
    if (!names.length || !app.weights.dense) return [];
    const all = stage.units.flatMap((unit) => looksOf(unit, kind, names)?.lines ?? []);
    return all.filter((line) => line.weight >= OVERVIEW).map((line) => ({ ...line, faint: true }));
  }

  // The answer in numbers

  function showAnswer(word, kind, names, looks, by) {
    const through = headsInWords(app.reading, kind, names);
    if (!word) {
      const legend = kindsOf(app.reading).map((one) => make("li", { "data-kind": one }, KINDS_SAID[app.reading.sides.target ? one : "own"]));
      answer.replaceChildren(
        make("p", { class: "answer-what" }, "Point at a word to see what it looks at. Choose it to keep it; Esc lets it go."),
        make("ul", { class: "kinds" }, ...legend),
        make("p", { class: "quiet" }, names.length ? `Faint lines: ${through}.` : "No head is chosen."),
      );
      return;
    }
    const title = make("p", { class: "answer-what" }, make("bdi", { class: "the-word", lang: langOf(word) }, word.text), word.side === "target" && kind === "cross" ? " looked at" : " looks at");
    const told = make("p", { class: "quiet through" }, through);
    if (!names.length) {
      answer.replaceChildren(title, make("p", { class: "quiet" }, "No head is chosen. Choose one or more on the grid of heads."));
      return;
    }
    if (!looks) {
      answer.replaceChildren(title, make("p", { class: "quiet" }, app.weights.dense ? "This word looks at nothing here." : "One moment…"));
      return;
    }
    const ranked = [...looks.found].sort((a, b) => b.weight - a.weight);
    const list = make("ol", { class: `bars ${kind}` }, ...ranked.slice(0, LISTED).map((look) => answerRow(word, kind, look)));
    const ranks = ranking(word, kind);
    answer.replaceChildren(title, told, list, ...asideNote(kind, names, looks), ...outsideNote(looks), ...ranks, ...writtenNote(by), stepsButton(word, kind, names));
    speak(`${word.text} looks at ${ranked.slice(0, 4).map((look) => `${shownWord(look.text)} ${asPercent(look.weight)}`).join(", ")}. ${through}.`);
  }

  function answerRow(word, kind, look) {
    const bar = make("span", { class: "bar" });
    bar.style.setProperty("--share", String(look.weight));
    const text = shownWord(look.text);
    const which = app.weights.dense && make("button", { type: "button", class: "link", "aria-label": `Which heads look from ${word.text} to ${text}?`, click: () => chooseLink(word, kind, look) }, "which heads?");
    return make("li", {}, make("bdi", { class: "bar-word" }, text), bar, make("span", { class: "bar-share" }, asPercent(look.weight)), which || null);
  }

  /** What rests on sinks, said, with the way to show it or to set it aside. */
  function asideNote(kind, names, looks) {
    const entry = app.reading.entries[headOf(names[0])[0]];
    if (!entry.sinks?.length && !looks.own) return [];
    const set = setsAside(app.state.sinks, names);
    const parts = looks.aside.map((sink) => `${asPercent(sink.weight)} on ${sink.text}`);
    if (looks.own) parts.push(`${asPercent(looks.own)} on the model's own sinks`);
    const said = set ? `Set aside: ${parts.join(", ") || "nothing"}. The shares are of the rest.` : "Attention sinks are shown like any word.";
    const box = make("input", { type: "checkbox", checked: set, change: (event) => app.change({ sinks: !event.target.checked }) });
    return [make("div", { class: "aside-note" }, make("label", {}, box, " Set sinks aside"), make("span", { class: "quiet" }, said))];
  }

  function outsideNote(looks) {
    return looks.outside ? [make("p", { class: "quiet" }, `${asPercent(looks.outside)} goes to words that are not shown here.`)] : [];
  }

  function writtenNote(by) {
    const ranked = [...by].sort((a, b) => b.weight - a.weight).slice(0, LISTED);
    const parts = ranked.flatMap(({ from: unit, weight }, n) => [n ? ", " : "", make("bdi", { lang: langOf(unit) }, unit.text), ` ${asPercent(weight)}`]);
    const [to] = ranked.map((line) => line.to.text);
    return parts.length ? [make("p", { class: "quiet" }, make("bdi", {}, to), " was looked at (faint lines) when these were written: ", ...parts, ".")] : [];
  }

  function chooseLink(word, kind, look) {
    const [best] = headsBetween(app.weights, kind, word.rows[kind], [look.start, look.stop]);
    app.change({ word: placeOfUnit(word), to: look.start, kind, heads: { ...app.state.heads, [kind]: [best.name] } });
  }

  /** The heads that look most from the chosen word to the one that was asked about. */
  function ranking(word, kind) {
    const target = app.state.to !== null && word === pinned() && stage.units.find((unit) => unit.columns[kind]?.[0] === app.state.to);
    if (!target || !app.weights.dense) return [];
    const found = headsBetween(app.weights, kind, word.rows[kind], target.columns[kind]).slice(0, RANKED);
    const chosen = new Set(heads.chosen(kind));
    const buttons = found.map(({ name, weight }) =>
      make(
        "button",
        { type: "button", class: "pill", "aria-pressed": String(chosen.size === 1 && chosen.has(name)), click: () => app.change({ heads: { ...app.state.heads, [kind]: [name] } }) },
        `layer ${app.reading.entries[headOf(name)[0]].layer}, head ${headOf(name)[1]}`,
        make("b", {}, ` ${asPercent(weight)}`),
      ),
    );
    const all = make("button", { type: "button", class: "pill", "aria-pressed": String(!app.state.heads[kind]), click: () => heads.chooseAll(kind) }, "mean of all");
    const count = headsOf(app.reading, kind).length;
    const title = make("p", { class: "quiet" }, `Of ${counted(count, "head")}, these look most from `, make("bdi", {}, word.text), " to ", make("bdi", {}, target.text), ":");
    return [make("div", { class: "ranking" }, title, make("div", { class: "pills", role: "group", "aria-label": "Heads" }, ...buttons, all))];
  }

  function stepsButton(word, kind, names) {
    const unfold = () => {
      const [entry, head] = headOf(names.length === 1 ? names[0] : strongest(word, kind, names));
      const { rows } = app.reading.entries[entry];
      app.change({ word: placeOfUnit(word), step: { entry, head, side: rows, token: word.rows[kind][0], key: null }, tab: "steps" }, { history: true });
    };
    return make("button", { type: "button", class: "primary unfold", click: unfold }, "Unfold the steps of ", make("bdi", {}, word.text), " →");
  }

  /** The head, of several, that looks most at the word that they look at most together. */
  function strongest(word, kind, names) {
    const looks = looksOf(word, kind, names);
    const best = [...looks.found].sort((a, b) => b.weight - a.weight)[0];
    const ranked = best ? headsBetween(app.weights, kind, word.rows[kind], [best.start, best.stop]) : [];
    return ranked.find(({ name }) => names.includes(name))?.name ?? names[0];
  }

  // A new reading, and while it is on the way

  function sideNames() {
    const [first, second] = app.languages;
    return { source: first || "Text", target: second || "Written", langs: { source: app.codes[0], target: app.codes[1] } };
  }

  function langOf(unit) {
    return app.codes[unit.side === "source" ? 0 : 1] || null;
  }

  function build() {
    const { reading } = app;
    const asides = {};
    if (reading.confidence !== null && reading.confidence !== undefined && reading.sides.target) {
      asides.target = make("span", { class: "quiet", title: "How probable it is that the translation is right" }, `confidence ${Math.round(100 * reading.confidence)}\u00a0%`);
    }
    stage.build(unitsOf(reading, from, MOST_WORDS), sideNames(), asides);
  }

  function showNotes() {
    const { reading } = app;
    const count = Math.max(...["source", "target"].map((side) => reading.sides[side]?.words?.length ?? reading.sides[side]?.tokens.length ?? 0));
    notes.replaceChildren(reading.note ?? "");
    const turn = (step, label, change, on) => make("button", { type: "button", class: "link", disabled: !on, "aria-label": label, click: change }, step < 0 ? "‹ before" : "next ›");
    if (reading.part && reading.part.count > 1) {
      const { index, count: parts } = reading.part;
      const go = (n) => () => app.openPart(n);
      notes.append(` Sentence ${index + 1} of ${parts} `, turn(-1, "The sentence before", go(index - 1), index > 0), " ", turn(1, "The next sentence", go(index + 1), index + 1 < parts));
    }
    if (count > MOST_WORDS) {
      const go = (start) => () => ((from = start), build(), showNotes());
      notes.append(` Words ${from + 1}–${Math.min(from + MOST_WORDS, count)} of ${count.toLocaleString("en")}; the map shows them all. `);
      notes.append(turn(-1, "Words before these", go(Math.max(from - MOST_WORDS, 0)), from > 0), " ", turn(1, "Words after these", go(from + MOST_WORDS), from + MOST_WORDS < count));
    }
  }

  return {
    onReading() {
      from = 0;
      over = preview = null;
      linkFirst();
      heads.onReading();
      build();
      showNotes();
      draw();
    },
    preview(text, written) {
      if (!text) return stage.root.classList.remove("waiting");
      stage.root.classList.add("waiting");
      if (written) stage.preview("target", written);
    },
    update(patch) {
      if ("kind" in patch || "heads" in patch) heads.update();
      if ("kind" in patch) stage.layout();
      draw();
    },
    onShow: () => stage.layout(),
    onTheme: () => heads.paint(),
    picture: () => stage.root.parentElement,
  };

  /** An address may ask for the head that looks most from its word to another. */
  function linkFirst() {
    const { state, weights, reading } = app;
    stage.root.classList.remove("waiting");
    if (state.to === null || !state.word || state.heads[state.kind] || !weights.dense) return;
    const unit = unitsOf(reading, 0, MOST_WORDS).find((one) => one.side === state.word.side && one.range[0] === state.word.token);
    const rows = unit?.rows[state.kind];
    const target = unitsOf(reading, 0, MOST_WORDS).find((one) => one.columns[state.kind]?.[0] === state.to);
    if (rows && target) state.heads = { ...state.heads, [state.kind]: [headsBetween(weights, state.kind, rows, target.columns[state.kind])[0].name] };
  }
}

function placeOfUnit(unit) {
  return { side: unit.side, token: unit.range[0] };
}

/** "encoder, layer 3, head 1", or how many heads the mean is over. */
export function headsInWords(reading, kind, names) {
  const all = headsOf(reading, kind);
  if (!names.length) return `no head of the ${kindInWords(kind)}`;
  const layers = new Set(names.map((name) => reading.entries[headOf(name)[0]].layer));
  if (names.length === 1) return `${kindInWords(kind)}, layer ${[...layers][0]}, head ${headOf(names[0])[1]}`;
  if (names.length === all.length) return `the mean of all ${counted(all.length, "head")} of the ${kindInWords(kind)}`;
  const where = layers.size === 1 ? `, layer ${[...layers][0]}` : "";
  return `the mean of ${counted(names.length, "head")} of the ${kindInWords(kind)}${where}`;
}

/** The name of a kind of attention in a sentence. */
export function kindInWords(kind) {
  return kind === "cross" ? "cross-attention" : kind;
}
