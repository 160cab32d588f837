// "Why": a score taken apart into what wrote the query and the key before this layer; what made a word of the output.

import {getJson, kindsOf, query} from "./api.js";
import {kindInWords} from "./heads.js";
import {chosenStep} from "./model.js";
import {asNumber, button, make, showWords, shownWord, themeNow} from "./ui.js";

const TITLES = {
  pairs: "By writer of the query × writer of the key",
  query: "By writer of the query",
  key: "By writer of the key",
};
const UNCHOSEN = "The word whose lead over the next best is smallest. Or choose a word.";

/** The view "Why" in `root`. */
export function openWhy(root, app) {
  const title = make("h2");
  const [at, not] = [make("div"), make("div")];
  const body = make("div", {class: "beside"});
  const frozen = make("p", {class: "quiet"}, document.getElementById("meaning-why").textContent);
  const or = make("p", {class: "quiet"}, "and not at (choose a word, if you wish):");
  const made = openMade(app);
  root.append(make("div", {class: "card step"}, title, at, or, not), body, frozen, made.card);
  let shown = "";

  async function update() {
    if (!app.reading) return;
    const {entry, head, token, key} = chosenStep(app);
    const {minus} = app.state;
    const {rows, columns, kind, layer} = app.reading.entries[entry];
    const word = shownWord(app.reading.sides[rows].tokens[token].trim());
    title.textContent = `Why does “${word}” look at this word? (${kindInWords(kind)}, layer ${layer}, head ${head})`;
    const chosen = Object.entries({key, minus}).filter(([, place]) => place !== null);
    const values = {reading: app.reading.id, entry, head, token, ...Object.fromEntries(chosen)};
    const address = query("/api/why", values);
    if (address === shown) return;
    shown = address;
    body.setAttribute("aria-busy", "true");
    const found = await getJson(address).catch(error => ({error}));
    if (address !== shown) return;
    body.removeAttribute("aria-busy");
    if (found.error) return body.replaceChildren(make("p", {class: "card quiet"}, found.error.message));
    const words = app.reading.sides[columns].tokens.map((token, n) => [token, n]);
    showWords(at, "Look at", words, found.key_token, n => app.change({step: {...chosenStep(app), key: n}}));
    showWords(not, "And not at", words, minus, n => app.change({minus: n === minus ? null : n}));
    body.replaceChildren(...Object.keys(TITLES).map(name => sumOf(name, found)));
  }

  return {
    onReading: () => ((shown = ""), made.onReading(), app.state.tab === "why" && update()),
    update,
    onShow: () => (made.onShow(), update()),
    onTheme: made.paint,
    picture: () => root,
  };
}

/** "What made a word": the heads and links that carried a word of the output, once a button asks for them. */
function openMade(app) {
  const [words, kinds, drawing] = ["words", "kinds", "made"].map(name => make("div", {class: name}));
  const said = make("p", {class: "quiet", role: "status"});
  const run = button({class: "primary", click: ask}, "What made this word");
  const parts = [make("h2", {}, "What made a word"), words, kinds, run, said, drawing];
  const card = make("div", {class: "card step", hidden: true}, ...parts);
  let [token, kind, found] = [null, "", null];

  function show(nextToken, nextKind, answer = null) {
    [token, kind, found] = [nextToken, nextKind, answer]; // no token: that of the smallest lead over another
    const tokens = app.reading.sides.target.tokens.map((text, n) => [text, n]);
    const all = kindsOf(app.reading).map((one, n) => [kindInWords(one), n, one]);
    showWords(words, "Word of the output", tokens, token, n => show(n, kind));
    showWords(kinds, "Kind of attention", all, kindsOf(app.reading).indexOf(kind), n => show(token, all[n][2]));
    said.textContent = answer?.error?.message ?? (token === null ? UNCHOSEN : "");
    run.disabled = false;
    paint();
  }

  async function ask() {
    const mine = (found = {});
    run.disabled = true;
    said.textContent = "The model runs without each of them…";
    const address = query("/api/made", {reading: app.reading.id, kind, ...(token !== null && {token})});
    const answer = await getJson(address).catch(error => ({error}));
    if (found === mine) show(answer.token ?? token, kind, answer);
  }

  function paint() {
    const svg = found?.pictures?.[themeNow()];
    drawing.replaceChildren(...(svg ? [new DOMParser().parseFromString(svg, "image/svg+xml").documentElement] : []));
    drawing.firstChild?.setAttribute("aria-label", `Why “${found.word}”, and not “${found.rival}”?`);
  }

  function onReading() {
    card.hidden = !app.reading.inside;
    if (!card.hidden) show(null, kindsOf(app.reading)[0]);
    onShow();
  }

  function onShow() {
    if (!card.hidden && !found && app.state.word?.side === "target") show(app.state.word.token, kind);
  }

  return {card, onReading, onShow, paint};
}

/** One sum: its largest terms, and the rest. */
function sumOf(name, {score, counts, [name]: largest}) {
  const left = counts[name] - largest.length;
  const rest = largest.reduce((total, [, amount]) => total - amount, score);
  const terms = left ? [...largest, [`… and ${left.toLocaleString("en")} others`, rest]] : largest;
  const most = Math.max(...terms.map(([, amount]) => Math.abs(amount)));
  const lines = terms.map(([text, amount]) => {
    const bar = make("span", {class: amount < 0 ? "bar negative" : "bar"});
    bar.style.setProperty("--share", String(Math.abs(amount) / most));
    const number = make("span", {class: "number"}, asNumber(amount));
    return make("li", {}, make("span", {class: "bar-word"}, text), bar, number);
  });
  const total = `${asNumber(score)} = the sum of ${counts[name].toLocaleString("en")} terms`;
  const list = make("ol", {class: "bars"}, ...lines);
  return make("section", {class: "card step"}, make("h3", {}, TITLES[name]), make("p", {class: "strong"}, total), list);
}
