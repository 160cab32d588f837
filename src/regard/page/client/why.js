// "Why": a score taken apart into what wrote the query and the key before this layer.

import {getJson, query} from "./api.js";
import {kindInWords} from "./heads.js";
import {chosenStep} from "./model.js";
import {asNumber, make, showWords, shownWord} from "./ui.js";

const TITLES = {
  pairs: "By writer of the query × writer of the key",
  query: "By writer of the query",
  key: "By writer of the key",
};

/** The view "Why" in `root`. */
export function openWhy(root, app) {
  const title = make("h2");
  const [at, not] = [make("div"), make("div")];
  const body = make("div", {class: "beside"});
  const frozen = make("p", {class: "quiet"}, document.getElementById("meaning-why").textContent);
  const or = make("p", {class: "quiet"}, "and not at (choose a word, if you wish):");
  root.append(make("div", {class: "card step"}, title, at, or, not), body, frozen);
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
    onReading: () => ((shown = ""), app.state.tab === "why" && update()),
    update,
    onShow: update,
    picture: () => root,
  };
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
