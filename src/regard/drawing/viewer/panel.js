// What a word looks at, in words and numbers: the answer beside the lines, and the ways on from it.

import {headOf, headsBetween, headsOf, kindsOf, setsAside} from "./answers.js";
import {kindInWords} from "./heads.js";
import {asPercent, counted, later, make, shownWord} from "./ui.js";

const LISTED = 6; // words of an answer
const SPOKEN = 4; // of them, for those who hear the page
const RANKED = 4; // heads of a ranking
const LEGEND = {
  encoder: "Words of the source look at each other: the encoder.",
  cross: "Each written word looks at the source: cross-attention.",
  decoder: "Each written word looks at the ones before it: the decoder.",
  own: "The words of the text look at each other.",
};

/** Where a shown word is: {side, token}. */
export function placeOfUnit(unit) {
  return {side: unit.side, token: unit.range[0]};
}

/** The panel. `show` takes what is asked: the word (null: none), the kind of attention, the heads' names, what was found
 *  (null: nothing yet), the faint lines of words that looked at it, and the word that it is tied to, if one was chosen. */
export function openPanel(app) {
  const element = make("div", {class: "card answer"});
  const spoken = make("p", {class: "unseen", role: "status"});
  const speak = later(text => (spoken.textContent = text), 400);
  const quiet = (...said) => make("p", {class: "quiet"}, ...said);
  const langOf = unit => app.codes[unit.side === "source" ? 0 : 1] || null;
  const wordOf = unit => make("bdi", {lang: langOf(unit)}, unit.text);

  function show({word, kind, names, looks, by, tied}) {
    const through = headsInWords(app.reading, kind, names);
    if (!word) return element.replaceChildren(...legend(names.length, through));
    const verb = kind === "cross" ? " looked at" : " looks at";
    const title = make("p", {class: "answer-what"}, wordOf(word), verb);
    title.firstElementChild.classList.add("the-word");
    if (!looks) {
      const none = names.length ? "It looks at nothing here." : "No head is chosen: choose one or more on the grid.";
      return element.replaceChildren(title, quiet(app.weights.dense || !names.length ? none : "One moment…"));
    }
    const ranked = [...looks.found].sort((a, b) => b.weight - a.weight);
    const rows = ranked.slice(0, LISTED).map(look => row(word, kind, look));
    const unfold = () => unfoldSteps(word, kind, names, ranked[0]);
    element.replaceChildren(
      title,
      quiet(through),
      make("ol", {class: "bars", "data-kind": kind}, ...rows),
      ...sinksNote(names, looks),
      ...(looks.outside ? [quiet(`${asPercent(looks.outside)} goes to words that are not shown here.`)] : []),
      ...(tied ? [ranking(word, kind, tied)] : []),
      ...(by.length ? [lookedAtNote(word, by)] : []),
      make(
        "button",
        {type: "button", class: "primary unfold", click: unfold},
        "Unfold the steps of ",
        wordOf(word),
        " →",
      ),
    );
    const said = ranked.slice(0, SPOKEN).map(look => `${shownWord(look.text)} ${asPercent(look.weight)}`);
    speak(`${word.text}${verb} ${said.join(", ")}. ${through}.`);
  }

  function legend(count, through) {
    const kinds = kindsOf(app.reading).map(kind =>
      make("li", {"data-kind": kind}, LEGEND[app.reading.sides.target ? kind : "own"]),
    );
    const how = "Point at a word to see what it looks at. Choose it to keep it; Esc lets it go.";
    const drawn = app.weights.dense ? `Faint lines: ${through}.` : `Of ${through}.`;
    const said = quiet(count ? drawn : "No head is chosen.");
    return [make("p", {class: "answer-what"}, how), make("ul", {class: "kinds"}, ...kinds), said];
  }

  /** A text that is too long to stand here. */
  function showLong(count) {
    const toMap = () => app.change({tab: "map"}, {history: true});
    element.replaceChildren(
      make("p", {class: "answer-what"}, `This text has ${counted(count, "token")}: more than can stand here.`),
      make("button", {type: "button", class: "primary unfold", click: toMap}, "Open the map →"),
    );
  }

  function row(word, kind, look) {
    const text = shownWord(look.text);
    const bar = make("span", {class: "bar"});
    bar.style.setProperty("--share", String(look.weight));
    const tie = () => {
      const [best] = headsBetween(app.weights, kind, word.rows[kind], [look.start, look.stop]);
      const heads = {...app.state.heads, [kind]: [best.name]};
      app.change({word: placeOfUnit(word), to: look.start, kind, heads});
    };
    const asked = {type: "button", class: "link", "aria-label": `Which heads look from ${word.text} to ${text}?`};
    const which = app.weights.dense ? make("button", {...asked, click: tie}, "which heads?") : null;
    const share = make("span", {class: "bar-share"}, asPercent(look.weight));
    return make("li", {}, make("bdi", {class: "bar-word"}, text), bar, share, which);
  }

  /** What rests on sinks, and the way to show it or to set it aside. */
  function sinksNote(names, looks) {
    if (!app.reading.entries[headOf(names[0])[0]].sinks?.length && !looks.own) return [];
    const set = setsAside(app.state.sinks, names);
    const parts = looks.aside.map(sink => `${asPercent(sink.weight)} on ${sink.text}`);
    if (looks.own) parts.push(`${asPercent(looks.own)} on the model's own sinks`);
    const shares = `Set aside: ${parts.join(", ") || "nothing"}. The shares are of the rest.`;
    const change = event => app.change({sinks: !event.target.checked});
    const box = make("input", {type: "checkbox", checked: set, change});
    const said = make("span", {class: "quiet"}, set ? shares : "Attention sinks are shown like any word.");
    return [make("div", {class: "aside-note"}, make("label", {}, box, " Set sinks aside"), said)];
  }

  /** The heads that look most from one word to the one it is tied to. */
  function ranking(word, kind, tied) {
    const all = headsOf(app.reading, kind);
    const now = app.state.heads[kind];
    const pill = (pressed, heads, ...label) => {
      const click = () => app.change({heads});
      return make("button", {type: "button", class: "pill", "aria-pressed": String(pressed), click}, ...label);
    };
    const {[kind]: _, ...others} = app.state.heads;
    const found = headsBetween(app.weights, kind, word.rows[kind], tied.columns[kind]).slice(0, RANKED);
    const pills = found.map(({name, weight}) => {
      const [n, head] = headOf(name);
      const pressed = now?.length === 1 && now[0] === name;
      const label = `layer ${app.reading.entries[n].layer}, head ${head}`;
      return pill(pressed, {...others, [kind]: [name]}, label, make("b", {}, ` ${asPercent(weight)}`));
    });
    const title = quiet(
      `Of ${counted(all.length, "head")}, these look most from `,
      wordOf(word),
      " to ",
      wordOf(tied),
      ":",
    );
    const group = {class: "pills", role: "group", "aria-label": `Heads that look from ${word.text} to ${tied.text}`};
    return make("div", {class: "ranking"}, title, make("div", group, ...pills, pill(!now, others, "mean of all")));
  }

  function lookedAtNote(word, by) {
    const ranked = [...by].sort((a, b) => b.weight - a.weight).slice(0, LISTED);
    const parts = ranked.flatMap((line, n) => [n ? ", " : "", wordOf(line.from), ` ${asPercent(line.weight)}`]);
    return quiet(wordOf(word), " was looked at (faint lines) when these were written: ", ...parts, ".");
  }

  /** The steps of one head: the only one or, of several, the one that looks most at what they look at most together. */
  function unfoldSteps(word, kind, names, best) {
    const ranked =
      best && app.weights.dense ? headsBetween(app.weights, kind, word.rows[kind], [best.start, best.stop]) : [];
    const name = names.length > 1 && ranked.find(one => names.includes(one.name))?.name;
    const [entry, head] = headOf(name || names[0]);
    const step = {entry, head, side: app.reading.entries[entry].rows, token: word.rows[kind][0], key: null};
    app.change({word: placeOfUnit(word), step, tab: "steps"}, {history: true});
  }

  return {element, spoken, show, showLong};
}

/** "encoder, layer 1, head 3", or how many heads the mean is over. */
function headsInWords(reading, kind, names) {
  const of = `of the ${kindInWords(kind)}`;
  if (!names.length) return `no head ${of}`;
  const layers = new Set(names.map(name => reading.entries[headOf(name)[0]].layer));
  const [layer] = layers;
  if (names.length === 1) return `${kindInWords(kind)}, layer ${layer}, head ${headOf(names[0])[1]}`;
  if (names.length === headsOf(reading, kind).length) return `the mean of all ${counted(names.length, "head")} ${of}`;
  return `the mean of ${counted(names.length, "head")} ${of}${layers.size === 1 ? `, layer ${layer}` : ""}`;
}
