// Translate and look: the words and their lines, what a word looks at in numbers, and the heads that are looked through.
// While a word is pointed at, everything is computed from weights that are already here.

import {answerOf, headOf, headsBetween, setsAside} from "./answers.js";
import {openHeads} from "./heads.js";
import {openPanel, placeOfUnit} from "./panel.js";
import {Stage, unitsOf} from "./stage.js";
import {asPercent, make, shownWord} from "./ui.js";

const MOST_WORDS = 300; // of a side at once; the map shows texts of any length
const OVERVIEW = 0.12; // weights from here on are drawn while no word is chosen

/** The view "Look" in `root`. */
export function openLook(root, app) {
  const left = make("div", {class: "look-left"});
  const right = make("div", {class: "card heads"});
  const notes = make("p", {class: "quiet notes"});
  let over = null; // the word that is pointed at
  let preview = null; // the name of the head that is pointed at
  let from = 0; // the first word that is shown
  const stage = new Stage(make("div", {class: "card stage-card"}), {
    over: unit => unit !== over && ((over = unit), draw()),
    pick,
    laidOut: () => draw(),
  });
  const panel = openPanel(app);
  const heads = openHeads(right, app, name => name !== preview && ((preview = name), draw()));
  left.append(stage.root.parentElement, panel.element, notes);
  root.append(make("div", {class: "look-grid"}, left, right), panel.spoken);
  root.addEventListener("keydown", event => {
    if (event.key === "Escape" && (over || app.state.word)) letGo();
  });

  function pick(unit) {
    if (unit === pinned()) letGo();
    else app.change({word: placeOfUnit(unit), to: null, kind: kindFor(unit)});
  }

  function letGo() {
    over = null; // it may have the focus still
    app.change({word: null, to: null});
  }

  /** The word that was chosen, if it is shown. */
  function pinned() {
    const {word} = app.state;
    const has = ({side, range}) => side === word.side && range[0] <= word.token && word.token < range[1];
    return (word && stage.units.find(has)) || null;
  }

  /** The kind of attention that a word is asked about: the listed one where it has that. */
  function kindFor(unit) {
    const kinds = Object.keys(unit.rows);
    return kinds.includes(app.state.kind) ? app.state.kind : kinds[0];
  }

  function headsFor(kind) {
    const pointed = preview && app.reading.entries[headOf(preview)[0]]?.kind === kind;
    return pointed ? [preview] : heads.chosen(kind);
  }

  /** What one word looks at: the answer, its lines, and the words that were set aside. */
  function looksOf(unit, kind, names) {
    const row = unit.rows[kind] && app.weights.mean(names, unit.rows[kind]);
    if (!row) return null;
    const entry = app.reading.entries[headOf(names[0])[0]];
    const {words, tokens} = app.reading.sides[entry.columns];
    const listed = words ?? tokens.map((token, n) => [token, n, n + 1]);
    const found = answerOf(row, listed, entry.sinks ?? [], setsAside(app.state.sinks, names), !app.weights.dense);
    const at = new Map(stage.units.filter(one => one.columns[kind]).map(one => [one.columns[kind][0], one]));
    const lines = found.found.map(look => ({from: unit, to: at.get(look.start), weight: look.weight, kind}));
    const aside = found.aside.map(sink => {
      const text = shownWord(tokens[sink.position]?.trim() ?? `token ${sink.position}`);
      return {...sink, unit: at.get(sink.position), text};
    });
    return {...found, aside, lines: lines.filter(line => line.to)};
  }

  function draw() {
    if (!app.reading || !stage.units.length) return;
    const word = over && stage.units.includes(over) ? over : pinned();
    const kind = word ? kindFor(word) : (preview && app.reading.entries[headOf(preview)[0]]?.kind) || app.state.kind;
    const names = headsFor(kind);
    const looks = word && names.length ? looksOf(word, kind, names) : null;
    if (word && names.length && !looks) fetchLooks(word, kind, names);
    const by = word ? lookedAtBy(word) : [];
    root.dataset.kind = app.state.kind;
    stage.draw(word ? [...(looks?.lines ?? []), ...by] : overview(kind, names), word, kind, looks?.aside ?? []);
    stage.press(pinned());
    const tied = app.state.to !== null && word && word === pinned() && app.weights.dense && unitAt(kind, app.state.to);
    panel.show({word, kind, names, looks, by, tied: tied || null});
  }

  /** Of a long text, ask for one row of weights. */
  function fetchLooks(word, kind, names) {
    if (app.weights.dense) return;
    const columns = stage.units.flatMap(unit => unit.columns[kind] ?? []);
    const again = () => word === (over ?? pinned()) && draw();
    app.weights
      .fetchMean(names, word.rows[kind], [Math.min(...columns), Math.max(...columns)])
      .then(again, app.trouble);
  }

  const unitAt = (kind, column) => stage.units.find(unit => unit.columns[kind]?.[0] === column);
  const faint = lines => lines.filter(line => line.weight >= OVERVIEW).map(line => ({...line, faint: true}));

  /** The lines of all words, while none is chosen. */
  function overview(kind, names) {
    if (!names.length || !app.weights.dense) return [];
    return faint(stage.units.flatMap(unit => looksOf(unit, kind, names)?.lines ?? []));
  }

  /** The words of the translation that looked at a word of the source. */
  function lookedAtBy(word) {
    const crossed = word.side === "source" && app.reading.sides.target && app.weights.dense;
    const names = crossed ? headsFor("cross") : [];
    if (!names.length) return [];
    const lines = stage.units.flatMap(unit => looksOf(unit, "cross", names)?.lines ?? []);
    return faint(lines.filter(line => line.to === word));
  }

  // A new reading, and while it is on the way

  function build() {
    const {reading, languages, codes} = app;
    const names = {source: languages[0] || "Text", target: languages[1] || "Written"};
    const asides = {};
    if (typeof reading.confidence === "number" && reading.sides.target) {
      const said = `confidence ${asPercent(Math.round(100 * reading.confidence) / 100)}`;
      asides.target = make("span", {class: "quiet", title: "How probable it is that the translation is right"}, said);
    }
    stage.build(unitsOf(reading, from, MOST_WORDS), {...names, langs: {source: codes[0], target: codes[1]}}, asides);
  }

  function showNotes() {
    const {reading} = app;
    const turn = (text, label, to, on) => {
      const attributes = {type: "button", class: "link", disabled: !on, "aria-label": label, click: to};
      return make("button", attributes, text);
    };
    notes.replaceChildren(reading.note ?? "");
    if (reading.part?.count > 1) {
      const {index, count} = reading.part;
      const before = turn("‹ before", "The sentence before", () => app.openPart(index - 1), index > 0);
      const next = turn("next ›", "The next sentence", () => app.openPart(index + 1), index + 1 < count);
      notes.append(
        ` ${app.about.task === "record" ? "Text" : "Sentence"} ${index + 1} of ${count} `,
        before,
        " ",
        next,
      );
    }
    const lengths = ["source", "target"].map(
      name => reading.sides[name]?.words?.length ?? reading.sides[name]?.count ?? 0,
    );
    const count = Math.max(...lengths);
    if (count > MOST_WORDS && stage.units.length) {
      const show = start => () => ((from = start), build(), showNotes());
      const last = Math.min(from + MOST_WORDS, count);
      const before = turn("‹ before", "Words before these", show(Math.max(from - MOST_WORDS, 0)), from > 0);
      const next = turn("next ›", "Words after these", show(from + MOST_WORDS), last < count);
      const range = ` Words ${from + 1}–${last} of ${count.toLocaleString("en")}; the map shows them all. `;
      notes.append(range, before, " ", next);
    }
  }

  /** An address may ask for the head that looks most from its word to another. */
  function tieFirst() {
    const {state, weights, reading} = app;
    if (state.to === null || !state.word || state.heads[state.kind] || !weights.dense) return;
    const units = unitsOf(reading, 0, MOST_WORDS);
    const word = units.find(({side, range}) => side === state.word.side && range[0] === state.word.token);
    const tied = units.find(unit => unit.columns[state.kind]?.[0] === state.to);
    if (!word?.rows[state.kind] || !tied) return;
    const [best] = headsBetween(weights, state.kind, word.rows[state.kind], tied.columns[state.kind]);
    state.heads = {...state.heads, [state.kind]: [best.name]};
  }

  return {
    onReading() {
      from = 0;
      over = preview = null;
      stage.root.classList.remove("waiting");
      tieFirst();
      heads.onReading();
      build();
      showNotes();
      if (stage.units.length) draw();
      else panel.showLong(app.reading.sides.source?.count ?? 0);
    },
    preview(text, written) {
      stage.root.classList.toggle("waiting", Boolean(text));
      if (!written) return;
      if (app.about.task === "generate") stage.preview("source", text + written);
      else stage.preview("target", written);
    },
    update(patch) {
      if ("kind" in patch || "heads" in patch) heads.update();
      if ("kind" in patch) stage.layout();
      else draw();
    },
    onShow: () => stage.layout(),
    onTheme: () => heads.paint(),
    picture: () => stage.root.parentElement,
  };
}
