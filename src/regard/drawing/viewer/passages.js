// The open cell: both words in their passages, the exact weight, what one word looks at and what looks at the other word.

import {percentOf} from "./colour.js";
import {element} from "./elements.js";
import {inOneLine} from "./feeds.js";

const aroundCell = 20;  // tokens on either side of a word
const listed = 6;
const longest = 2 ** 20;  // tokens of a row or column that is read as a whole
const waited = 20000;  // tokens of a column that is requested from a feed that computes elsewhere

/**
 * Fill the panel for a cell [row, column]; `go(cell)` opens another one. Returns the exact weight. `current()` says
 * whether this cell is still open.
 */
export async function showPassages(panel, {feed, tokens, choice, cell, go, close, current}) {
  const [row, column] = cell, {about} = feed;
  const one = {heads: choice.heads, rows: [row, row + 1], columns: [column, column + 1], bins: [1, 1]};
  const [[exact], left, right] = await Promise.all([
    feed.tile(one),
    tokens.rows.range(row - aroundCell, row + aroundCell + 1),
    tokens.columns.range(column - aroundCell, column + aroundCell + 1),
  ]);
  if (!current()) return exact;
  const rowStart = Math.max(row - aroundCell, 0), columnStart = Math.max(column - aroundCell, 0);
  const [looker, looked] = [inOneLine(left[row - rowStart]), inOneLine(right[column - columnStart])];
  const lists = element("div", {class: "map-lists"});
  panel.replaceChildren(
    element("div", {class: "map-panel-head"},
      element("h2", {}, quoted(looker), " → ", quoted(looked)),
      element("button", {type: "button", class: "map-icon", "aria-label": "Close the cell", click: close}, "✕")),
    element("p", {class: "map-number"},
      element("strong", {}, percentOf(exact)), " ",
      element("span", {class: "map-exact"}, Number.isNaN(exact) ? "not computed yet" : exactText(exact))),
    element("p", {class: "map-quiet"}, choice.title),
    passage(`Looks: token ${row.toLocaleString("en")}`, left, row - rowStart,
      rowStart > 0, row + aroundCell + 1 < about.queries),
    passage(`Is looked at: token ${column.toLocaleString("en")}`, right, column - columnStart,
      columnStart > 0, column + aroundCell + 1 < about.keys),
    lists,
  );
  panel.hidden = false;
  fillLists(lists, {feed, tokens, choice, cell, go, current, looker, looked});
  return exact;
}

/** The number with all its digits. */
export function exactText(value) {
  if (value === 0) return "0";
  return value >= 1e-4 ? String(Number(value.toPrecision(7))) : value.toExponential(6);
}

function quoted(word) {
  return element("q", {}, word);
}

function passage(title, tokens, marked, before, after) {
  const word = tokens[marked], start = tokens.slice(0, marked).join("") + /^\s*/.exec(word)[0];
  const text = element("p", {class: "map-text", dir: "auto"}, `${before ? "… " : ""}${start.trimStart()}`,
    element("mark", {}, word.trim() || inOneLine(word)),
    `${tokens.slice(marked + 1).join("").trimEnd()}${after ? " …" : ""}`);
  return element("section", {}, element("h3", {}, title), text);
}

async function fillLists(lists, {feed, tokens, choice, cell: [row, column], go, current, looker, looked}) {
  const {queries, keys} = feed.about;
  const ask = (rows, columns, bins) => feed.tile({heads: choice.heads, rows, columns, bins});
  const add = async (title, values, place, side) => {
    const best = largestPlaces(values, listed).filter(n => values[n] > 0);
    const words = await Promise.all(best.map(n => tokens[side].range(n - 3, n + 4)));
    if (!current() || !best.length) return;
    const top = values[best[0]];
    lists.append(element("section", {}, title, element("ol", {class: "map-list"}, ...best.map((n, rank) => {
      const from = Math.max(n - 3, 0), here = n === (side === "columns" ? column : row);
      const bar = element("meter", {min: 0, max: 1, value: values[n] / top, "aria-hidden": "true"});
      const text = element("span", {class: "map-context", dir: "auto"}, words[rank].slice(0, n - from).join(""), " ",
        element("b", {}, inOneLine(words[rank][n - from])), words[rank].slice(n - from + 1).join(""));
      return element("li", {}, element("button", {
        type: "button", click: () => go(place(n)), "aria-current": here ? "true" : null,
      }, bar, element("span", {class: "map-share"}, percentOf(values[n])), text));
    }))));
  };
  try {
    if (keys <= longest) {
      const values = await ask([row, row + 1], [0, keys], [1, keys]);
      await add(element("h3", {}, quoted(looker), " looks most at"), values, n => [row, n], "columns");
    }
    if (queries <= (feed.local ? longest : waited)) {
      const values = await ask([0, queries], [column, column + 1], [queries, 1]);
      await add(element("h3", {}, quoted(looked), " is looked at most by"), values, n => [n, column], "rows");
    }
  } catch {
    // The map shows the error; the cell stays open.
  }
}

/** The places of the largest values, descending. */
export function largestPlaces(values, count) {
  const best = [];
  for (let n = 0; n < values.length; n++) {
    if (best.length === count && !(values[n] > values[best[count - 1]])) continue;
    let at = best.length;
    while (at > 0 && values[n] > values[best[at - 1]]) at--;
    best.splice(at, 0, n);
    best.length = Math.min(best.length, count);
  }
  return best;
}
