// The view as an address: everything that was chosen is in the part after #, so that a link restores it.

const KINDS = ["encoder", "cross", "decoder"];
const TABS = ["look", "steps", "whatif", "map"];

/** What is chosen before anything was chosen. */
export function freshState() {
  return {
    text: "",
    tab: "look",
    part: 0, // the sentence, of a text that was split
    word: null, // {side, token}: the chosen word
    to: null, // a token: heads are those that look most from the word to this one
    kind: "", // whose heads are listed; "": the reading's first
    heads: {}, // kind → names "entry.head" that are chosen; a kind that is not there: all
    sinks: null, // true: shown like any token; false: set aside; null: set aside unless one head is chosen
    step: null, // {entry, head, side, token, key}: what is unfolded
    divisor: null, // of the scores; null: the model's own
    hide: [], // tokens of the source that may not be seen
    off: [], // names of heads that are switched off
    map: "", // the view of the map, as its own text
  };
}

/** The state that an address holds; whatever is not understood is left as it was. */
export function stateOf(hash) {
  const values = new URLSearchParams(hash.replace(/^#/, ""));
  const state = freshState();
  state.text = values.get("text") ?? "";
  if (TABS.includes(values.get("tab"))) state.tab = values.get("tab");
  state.part = wholeOf(values.get("part")) ?? 0;
  state.word = placeOf(values.get("word"));
  state.to = wholeOf(values.get("to"));
  if (KINDS.includes(values.get("kind"))) state.kind = values.get("kind");
  for (const group of (values.get("heads") ?? "").split("_")) {
    const [kind, ...names] = group.split("-");
    if (KINDS.includes(kind)) state.heads[kind] = names.filter(isHead);
  }
  if (values.has("sinks")) state.sinks = values.get("sinks") === "shown";
  const [, entry, head, side, token, key] =
    /^(\d+)\.(\d+)\.(source|target|read)\.(\d+)(?:\.(\d+))?$/.exec(values.get("step") ?? "") ?? [];
  if (entry !== undefined) {
    state.step = {
      entry: Number(entry),
      head: Number(head),
      side,
      token: Number(token),
      key: key === undefined ? null : Number(key),
    };
  }
  const divisor = Number(values.get("divisor"));
  if (values.has("divisor") && divisor > 0 && divisor < 1e4) state.divisor = divisor;
  state.hide = (values.get("hide") ?? "")
    .split("-")
    .map(wholeOf)
    .filter(token => token !== null);
  state.off = (values.get("off") ?? "").split("-").filter(isHead);
  state.map = values.get("map") ?? "";
  return state;
}

/** The address of a state; what is as at the start is left out. Only letters that need no escape stand between parts. */
export function hashOf(state) {
  const values = new URLSearchParams();
  const put = (name, value) => value && values.set(name, value);
  put("text", state.text);
  put("tab", state.tab === "look" ? "" : state.tab);
  put("part", state.part ? String(state.part) : "");
  put("word", state.word && `${state.word.side}.${state.word.token}`);
  put("to", state.to === null ? "" : String(state.to));
  put("kind", state.kind);
  put("heads", Object.entries(state.heads) .map(([kind, names]) => [kind, ...names].join("-")) .join("_"));
  put("sinks", state.sinks === null ? "" : state.sinks ? "shown" : "aside");
  const step = state.step;
  put(
    "step",
    step && [step.entry, step.head, step.side, step.token, ...(step.key === null ? [] : [step.key])].join("."),
  );
  put("divisor", state.divisor === null ? "" : state.divisor.toFixed(3));
  put("hide", state.hide.join("-"));
  put("off", state.off.join("-"));
  put("map", state.map);
  const text = values.toString();
  return text && `#${text}`;
}

function wholeOf(text) {
  return /^\d{1,7}$/.test(text ?? "") ? Number(text) : null;
}

function placeOf(text) {
  const [, side, token] = /^(source|target|read)\.(\d{1,7})$/.exec(text ?? "") ?? [];
  return side ? {side, token: Number(token)} : null;
}

function isHead(name) {
  return /^\d{1,4}\.\d{1,4}$/.test(name);
}
