// "Look": the words and their lines, what a word looks at in numbers, and the heads whose attention is shown.

import {headOf, headsOf, kindsOf, setsAside} from "./api.js";
import {hintOf, kindInWords, openHeads} from "./heads.js";
import {Stage, unitsOf} from "./stage.js";
import {asPercent, button, counted, later, make, meaning, shownWord} from "./ui.js";

const MOST_WORDS = 300; // of a side, at most; the map shows texts of any length
const OVERVIEW = 0.12; // the smallest weight that is drawn while no word is chosen

/** The view "Look" in `root`. */
export function openLook(root, app) {
  const left = make("div", {class: "look-left"});
  const right = make("div", {class: "card heads"});
  const notes = make("p", {class: "quiet notes"});
  let over = null; // the word under the pointer
  let preview = null; // the name of the head under the pointer
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
    over = null; // it may still have the focus
    app.change({word: null, to: null});
  }

  /** The word that was chosen, if it is shown. */
  function pinned() {
    const {word} = app.state;
    const has = ({side, range}) => side === word.side && range[0] <= word.token && word.token < range[1];
    return (word && stage.units.find(has)) || null;
  }

  /** The kind of attention to show for a word: the chosen kind, if the word has it. */
  function kindFor(unit) {
    const kinds = Object.keys(unit.rows);
    return kinds.includes(app.state.kind) ? app.state.kind : kinds[0];
  }

  function headsFor(kind) {
    const pointed = preview && app.reading.entries[headOf(preview)[0]]?.kind === kind;
    return pointed ? [preview] : heads.chosen(kind);
  }

  /** What one word looks at: the answer, its lines, and the sinks that are set aside; undefined until it is there. */
  function looksOf(unit, kind, names) {
    if (!unit.rows[kind]) return null;
    const answer = app.answers.looks(names, setsAside(app.state.sinks, names), unit.rows[kind]);
    if (!answer) return answer;
    const {words, tokens} = app.reading.sides[app.reading.entries[headOf(names[0])[0]].columns];
    const listed = new Map((words ?? tokens.map((token, n) => [token, n, n + 1])).map(word => [word[1], word]));
    const at = new Map(stage.units.filter(one => one.columns[kind]).map(one => [one.columns[kind][0], one]));
    const found = answer.looks.map(([place, weight]) => {
      const [text, start, stop] = listed.get(place);
      return {text, range: [start, stop], weight};
    });
    const lines = found.map(({range, weight}) => ({from: unit, to: at.get(range[0]), weight, kind}));
    const aside = answer.aside.map(([sink, weight]) => {
      const text = shownWord(tokens[sink]?.trim() ?? `token ${sink}`);
      return {weight, unit: at.get(sink), text};
    });
    return {found, aside, own: answer.own, lines: lines.filter(line => line.to)};
  }

  function draw() {
    if (!app.reading || !stage.units.length) return;
    const word = over && stage.units.includes(over) ? over : pinned();
    const kind = word ? kindFor(word) : (preview && app.reading.entries[headOf(preview)[0]]?.kind) || app.state.kind;
    const names = headsFor(kind);
    const looks = word && names.length ? looksOf(word, kind, names) : null;
    const lines = word ? looks?.lines : overview(kind, names);
    waiting.cancel();
    if (word ? looks === undefined : !lines) {
      waiting(word, kind, names); // the old lines stay until the answer arrives
      return;
    }
    const by = word ? lookedAtBy(word) : [];
    heads.show(kind);
    stage.draw([...(lines ?? []), ...by], word, kind, looks?.aside ?? []);
    stage.press(pinned());
    const tied = app.state.to !== null && word && word === pinned() && unitAt(kind, app.state.to);
    panel.show({word, kind, names, looks, by, tied: tied || null});
  }

  const waiting = later((word, kind, names) => panel.show({word, kind, names, by: [], tied: null}), 300);

  const unitAt = (kind, column) => stage.units.find(unit => unit.columns[kind]?.[0] === column);
  const faint = lines => lines.filter(line => line.weight >= OVERVIEW).map(line => ({...line, faint: true}));

  /** The lines of all words, while no word is chosen; undefined until they have arrived. */
  function overview(kind, names) {
    if (!names.length || !app.answers.dense) return [];
    const looks = stage.units.map(unit => looksOf(unit, kind, names));
    return looks.includes(undefined) ? undefined : faint(looks.flatMap(look => look?.lines ?? []));
  }

  /** The words of the translation that looked at a word of the source. */
  function lookedAtBy(word) {
    const crossed = word.side === "source" && app.reading.sides.target && app.answers.dense;
    const names = crossed ? headsFor("cross") : [];
    if (!names.length) return [];
    const lines = stage.units.flatMap(unit => looksOf(unit, "cross", names)?.lines ?? []);
    return faint(lines.filter(line => line.to === word));
  }

  // A new reading, and the time before it arrives

  function build() {
    const {reading, languages, codes} = app;
    const names = {source: languages[0] || "Text", target: languages[1] || "Written"};
    const asides = {};
    if (typeof reading.confidence === "number" && reading.sides.target) {
      const said = `confidence ${asPercent(Math.round(100 * reading.confidence) / 100)}`;
      asides.target = meaning("confidence", said);
    }
    stage.build(unitsOf(reading, from, MOST_WORDS), {...names, langs: {source: codes[0], target: codes[1]}}, asides);
  }

  function showNotes() {
    const {sides, note} = app.reading;
    notes.replaceChildren(note);
    const count = Math.max(...[sides.source, sides.target].map(side => side?.words?.length ?? side?.count ?? 0));
    if (count <= MOST_WORDS || !stage.units.length) return;
    const last = Math.min(from + MOST_WORDS, count);
    const move = by => ((from = Math.max(from + by * MOST_WORDS, 0)), build(), showNotes());
    const turn = (by, disabled, label, text) =>
      button({class: "link", disabled, "aria-label": label, click: () => move(by)}, text);
    notes.append(
      ` Words ${from + 1}–${last} of ${count.toLocaleString("en")}; the map shows them all. `,
      turn(-1, from === 0, "Words before these", "‹ before"),
      turn(1, last >= count, "Words after these", "next ›"),
    );
  }

  /** Choose the head that looks most from the word of an address to its other word. */
  async function tieFirst() {
    const {state, answers, reading} = app;
    if (state.to === null || !state.word || state.heads[state.kind]) return;
    const units = unitsOf(reading, 0, MOST_WORDS);
    const word = units.find(({side, range}) => side === state.word.side && range[0] === state.word.token);
    const tied = units.find(unit => unit.columns[state.kind]?.[0] === state.to);
    if (!word?.rows[state.kind] || !tied) return;
    const [best] = await answers.heads(state.kind, word.rows[state.kind], tied.columns[state.kind]);
    if (best) state.heads = {...state.heads, [state.kind]: [best.name]};
  }

  return {
    tieFirst,
    draw,
    onReading() {
      from = 0;
      over = preview = null;
      stage.root.classList.remove("waiting");
      heads.onReading();
      build();
      showNotes();
      if (stage.units.length) draw();
      else (heads.show(app.state.kind), panel.showLong(app.reading.sides.source?.count ?? 0));
    },
    preview(text, written) {
      stage.root.classList.toggle("waiting", Boolean(text));
      if (!written) return;
      if (app.about.task === "generate") stage.preview("source", text + written);
      else stage.preview("target", written);
    },
    update(patch) {
      if ("heads" in patch) heads.mark();
      if ("kind" in patch) stage.layout();
      else draw();
    },
    onShow: () => stage.layout(),
    onTheme: () => heads.paint(),
    picture: () => stage.root.parentElement,
  };
}

const LISTED = 6; // words of an answer
const SPOKEN = 4; // words of an answer that a screen reader speaks
const RANKED = 4; // heads of a ranking
/** The place of a word: {side, token}. */
function placeOfUnit(unit) {
  return {side: unit.side, token: unit.range[0]};
}

/** The panel. `show` takes the word (null: none), the kind of attention, the names of the heads, what the word looks at
 *  (undefined: not known yet), the faint lines of words that looked at it, and the word that it is tied to, if any. */
function openPanel(app) {
  const element = make("div", {class: "card answer"});
  const spoken = make("p", {class: "regard-unseen", role: "status"});
  const speak = later(text => (spoken.textContent = text), 400);
  const quiet = (...said) => make("p", {class: "quiet"}, ...said);
  const langOf = unit => app.codes[unit.side === "source" ? 0 : 1] || null;
  const wordOf = unit => make("bdi", {lang: langOf(unit)}, unit.text);

  function show({word, kind, names, looks, by, tied}) {
    const through = headsInWords(app.reading, kind, names, app.about.heads);
    if (!word) return element.replaceChildren(...legend(names.length, through));
    const verb = kind === "cross" ? " looked at" : " looks at";
    const title = make("p", {class: "answer-what"}, wordOf(word), verb);
    title.firstElementChild.classList.add("the-word");
    if (!looks) {
      const none = names.length ? "It looks at nothing here." : "No head is chosen: choose one or more on the grid.";
      return element.replaceChildren(title, quiet(looks === undefined ? "One moment…" : none));
    }
    const ranked = [...looks.found].sort((a, b) => b.weight - a.weight);
    const rows = ranked.slice(0, LISTED).map(look => row(word, kind, look));
    const unfold = () => unfoldSteps(word, kind, names, ranked[0]);
    element.replaceChildren(
      title,
      quiet(through),
      ...(isOpening(word, names) ? [quiet(app.opened.why)] : []),
      make("ol", {class: "bars", "data-kind": kind}, ...rows),
      ...sinksNote(names, looks),
      ...(tied ? [ranking(word, kind, tied)] : []),
      ...(by.length ? [lookedAtNote(word, by)] : []),
      button({class: "primary unfold", click: unfold}, "Unfold the steps of ", wordOf(word), " →"),
    );
    const said = ranked.slice(0, SPOKEN).map(look => `${shownWord(look.text)} ${asPercent(look.weight)}`);
    speak(`${word.text}${verb} ${said.join(", ")}. ${through}.`);
  }

  /** Whether the text opened on this word, with these heads. */
  function isOpening({side, range}, names) {
    const {word, heads} = app.opened ?? {};
    return word?.side === side && word.token === range[0] && String(names) === String(Object.values(heads));
  }

  function legend(count, through) {
    const kinds = kindsOf(app.reading).map(kind => make("li", {"data-kind": kind}, hintOf(app.reading, kind)));
    const how = "Point at a word to see what it looks at. Choose it to keep it; Esc lets it go.";
    const drawn = app.answers.dense ? `Faint lines: ${through}.` : `Of ${through}.`;
    const lines = quiet(count ? drawn : "No head is chosen.");
    return [make("p", {class: "answer-what"}, how), make("ul", {class: "kinds"}, ...kinds), lines];
  }

  /** Point to the map, where the text is too long for this view. */
  function showLong(count) {
    const toMap = () => app.change({tab: "map"}, {history: true});
    element.replaceChildren(
      make("p", {class: "answer-what"}, `This text has ${counted(count, "token")}: more than can stand here.`),
      button({class: "primary unfold", click: toMap}, "Open the map →"),
    );
  }

  function row(word, kind, look) {
    const text = shownWord(look.text);
    const bar = make("span", {class: "bar"});
    bar.style.setProperty("--share", String(look.weight));
    const tie = async () => {
      const [best] = await app.answers.heads(kind, word.rows[kind], look.range);
      const heads = {...app.state.heads, [kind]: [best.name]};
      app.change({word: placeOfUnit(word), to: look.range[0], kind, heads});
    };
    const label = `Which heads look from ${word.text} to ${text}?`;
    const which = button({class: "link", "aria-label": label, click: tie}, "which heads?");
    const share = make("span", {class: "bar-share"}, asPercent(look.weight));
    return make("li", {}, make("bdi", {class: "bar-word"}, text), bar, share, which);
  }

  /** The share that rests on sinks, and the choice whether to set it aside. */
  function sinksNote(names, looks) {
    if (!app.reading.entries[headOf(names[0])[0]].sinks?.length && !looks.own) return [];
    const set = setsAside(app.state.sinks, names);
    const parts = looks.aside.map(sink => `${asPercent(sink.weight)} on ${sink.text}`);
    if (looks.own) parts.push(`${asPercent(looks.own)} on the model's own sinks`);
    const shares = `Set aside: ${parts.join(", ") || "nothing"}. The shares are of the rest.`;
    const change = event => app.change({sinks: !event.target.checked});
    const box = make("input", {type: "checkbox", checked: set, change});
    const said = make("span", {class: "quiet"}, set ? shares : "Attention sinks are shown like any word.");
    const label = make("label", {}, box, " Set sinks aside");
    return [make("div", {class: "aside-note"}, label, said, meaning("sink", "What is a sink?"))];
  }

  /** The heads that look most from one word to the word that it is tied to. */
  function ranking(word, kind, tied) {
    const all = headsOf(app.reading, kind);
    const now = app.state.heads[kind];
    const pill = (pressed, heads, ...label) => {
      const click = () => app.change({heads});
      return button({class: "pill", "aria-pressed": String(pressed), click}, ...label);
    };
    const {[kind]: _, ...others} = app.state.heads;
    const group = {class: "pills", role: "group", "aria-label": `Heads that look from ${word.text} to ${tied.text}`};
    const pills = make("div", group);
    app.answers.heads(kind, word.rows[kind], tied.columns[kind]).then(ranked => {
      const found = ranked.slice(0, RANKED).map(({name, weight}) => {
        const [n, head] = headOf(name);
        const pressed = now?.length === 1 && now[0] === name;
        const label = `layer ${app.reading.entries[n].layer}, head ${head}`;
        return pill(pressed, {...others, [kind]: [name]}, label, make("b", {}, ` ${asPercent(weight)}`));
      });
      pills.replaceChildren(...found, pill(!now, others, "mean of all"));
    });
    const of = `Of ${counted(all.length, "head")}, these look most from `;
    const title = quiet(of, wordOf(word), " to ", wordOf(tied), ":");
    return make("div", {class: "ranking"}, title, pills);
  }

  function lookedAtNote(word, by) {
    const ranked = [...by].sort((a, b) => b.weight - a.weight).slice(0, LISTED);
    const parts = ranked.flatMap((line, n) => [n ? ", " : "", wordOf(line.from), ` ${asPercent(line.weight)}`]);
    return quiet(wordOf(word), " was looked at (faint lines) when these were written: ", ...parts, ".");
  }

  /** Open the steps of one head; of several heads, the head that looks most at the word with the largest weight. */
  async function unfoldSteps(word, kind, names, best) {
    const ranked = best && names.length > 1 ? await app.answers.heads(kind, word.rows[kind], best.range) : [];
    const name = ranked.find(one => names.includes(one.name))?.name;
    const [entry, head] = headOf(name || names[0]);
    const step = {entry, head, side: app.reading.entries[entry].rows, token: word.rows[kind][0], key: null};
    app.change({word: placeOfUnit(word), step, tab: "steps"}, {history: true});
  }

  return {element, spoken, show, showLong};
}

/** "encoder, layer 5, head 0", with what it was taught, or the number of heads of the mean. */
function headsInWords(reading, kind, names, taught) {
  const of = `of the ${kindInWords(kind)}`;
  if (!names.length) return `no head ${of}`;
  const layers = new Set(names.map(name => reading.entries[headOf(name)[0]].layer));
  const [layer] = layers;
  if (names.length === 1) {
    const head = headOf(names[0])[1];
    const lesson = taught.find(one => kind === "encoder" && one.layer === layer && one.head === head);
    return `${kindInWords(kind)}, layer ${layer}, head ${head}${lesson ? `, taught ${lesson.name}` : ""}`;
  }
  if (names.length === headsOf(reading, kind).length) return `the mean of all ${counted(names.length, "head")} ${of}`;
  return `the mean of ${counted(names.length, "head")} ${of}${layers.size === 1 ? `, layer ${layer}` : ""}`;
}
