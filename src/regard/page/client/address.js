// The view as an address: the part after # holds everything that the visitor chose, so that a link restores it.

const KINDS = ["encoder", "cross", "decoder"];
const TABS = ["look", "steps", "matrices", "why", "whatif", "map"];

const wholeOf = text => (/^\d{1,7}$/.test(text) ? Number(text) : null);
const isHead = name => /^\d{1,4}\.\d{1,4}$/.test(name);
const listed = (text, read) => text.split("-").map(read).filter(value => value !== null);

function headsOf(text) {
  const groups = text.split("_").map(group => group.split("-")).filter(([kind]) => KINDS.includes(kind));
  return Object.fromEntries(groups.map(([kind, ...names]) => [kind, names.filter(isHead)]));
}

function wordOf(text) {
  const [, side, token] = /^(source|target|read)\.(\d{1,7})$/.exec(text) ?? [];
  return side ? {side, token: Number(token)} : null;
}

function stepOf(text) {
  const parts = /^(\d+)\.(\d+)\.(source|target|read)\.(\d+)(?:\.(\d+))?$/;
  const [whole, entry, head, side, token, key] = parts.exec(text) ?? [];
  const numbers = {entry: Number(entry), head: Number(head), token: Number(token)};
  return whole ? {...numbers, side, key: key === undefined ? null : Number(key)} : null;
}

const asText = value => value ?? "";

// Each choice: its value at the start, how it is written into an address, and how it is read back. The separators need no
// escape. A choice that cannot be read keeps its value at the start.
const FIELDS = {
  text: ["", asText, text => text],
  tab: ["look", tab => (tab === "look" ? "" : tab), text => (TABS.includes(text) ? text : null)],
  part: [0, part => part || "", wholeOf], // which sentence of a text that was split
  word: [null, word => word && `${word.side}.${word.token}`, wordOf], // {side, token}: the chosen word
  to: [null, asText, wholeOf], // a token; the heads are those that look most from the word to it
  kind: ["", asText, text => (KINDS.includes(text) ? text : null)], // whose heads are listed; "": the reading's first
  // kind → names "entry.head" of the chosen heads; of a kind that is not listed, all heads
  heads: [{}, heads => Object.entries(heads).map(([kind, names]) => [kind, ...names].join("-")).join("_"), headsOf],
  // true: shown like any token; false: set aside; null: set aside unless one head is chosen
  sinks: [null, sinks => (sinks === null ? "" : sinks ? "shown" : "aside"), text => text === "shown"],
  // {entry, head, side, token, key}: the step that is unfolded
  step: [null, step => step && [step.entry, step.head, step.side, step.token, step.key ?? []].flat().join("."), stepOf],
  minus: [null, asText, wholeOf], // a token: why does the step look at its key, and not there?
  book: ["", asText, text => text], // a sentence of the textbook, whose matrices are shown
  divisor: [null, value => value?.toFixed(3), text => (Number(text) > 0 && Number(text) < 1e4 ? Number(text) : null)],
  hide: [[], tokens => tokens.join("-"), text => listed(text, wholeOf)], // hidden tokens of the source
  off: [[], names => names.join("-"), text => text.split("-").filter(isHead)], // heads that are switched off
  map: ["", () => "", () => null], // the view of the map, as map.js writes it: all other fields of an address
};

/** The state at the start. */
export function freshState() {
  return structuredClone(Object.fromEntries(Object.entries(FIELDS).map(([name, [start]]) => [name, start])));
}

/** The state that an address holds. */
export function stateOf(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const state = freshState();
  for (const [name, [, , read]] of Object.entries(FIELDS)) {
    if (values.has(name)) state[name] = read(values.get(name)) ?? state[name];
  }
  state.map = new URLSearchParams([...values].filter(([name]) => !(name in FIELDS))).toString();
  return state;
}

/** The address of a state, without the choices that are as at the start. */
export function hashOf(state) {
  const values = new URLSearchParams();
  for (const [name, [, write]] of Object.entries(FIELDS)) {
    const text = write(state[name]);
    if (text || text === 0) values.set(name, text);
  }
  for (const [name, value] of new URLSearchParams(state.map)) values.set(name, value);
  return values.size ? `#${values}` : "";
}
