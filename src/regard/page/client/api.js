// The server's answers: JSON, arrays of floats, and the events of a text that is being read. Every failure is an ApiError
// whose message can be shown as it is.

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message.slice(0, 1).toUpperCase() + message.slice(1));
    this.status = status;
  }
}

const SILENT = "The server does not answer. Is `regard serve` still running?";

async function request(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(SILENT);
  }
  if (response.ok) return response;
  const {error} = await response.json().catch(() => ({}));
  const unknown = `The server could not answer (${response.status}). Try again in a moment.`;
  throw new ApiError(error || unknown, response.status);
}

/** A JSON answer. */
export async function getJson(address) {
  return (await request(address)).json();
}

/** An array of little-endian floats and its shape. */
export async function getFloats(address, signal) {
  const response = await request(address, {signal});
  const shape = response.headers.get("X-Shape").split(",").map(Number);
  return {shape, data: new Float32Array(await response.arrayBuffer())};
}

/** A file. */
export async function getBlob(address) {
  return (await request(address)).blob();
}

/** An address with its query. */
export function query(path, values) {
  return `${path}?${new URLSearchParams(values)}`;
}

/** Read a text and return the reading; `tell` gets every event before it. */
export async function postRead(body, tell, signal) {
  const response = await request("/api/read", {
    method: "POST",
    headers: {"Content-Type": "application/json"},
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The connection broke off while the text was being read. Try again.");
    }
    const lines = (rest + (part.value ?? "")).split("\n");
    rest = part.done ? "" : lines.pop();
    for (const line of lines.filter(text => text.trim())) {
      const event = JSON.parse(line);
      if (event.error) throw new ApiError(event.error, 400);
      if (event.reading) return event.reading;
      tell(event);
    }
    if (part.done) throw new ApiError("The server stopped before the text was read. Try again.");
  }
}

const MOST_FLOATS = 1 << 24; // weights of all entries together, up to which the lines of all words are drawn

/** A head as the address and the API write it: "entry.head". */
export const headName = (entry, head) => `${entry}.${head}`;

/** The [entry, head] of a name. */
export const headOf = name => name.split(".").map(Number);

/** The names of all heads of one kind, in the order of layers; only layers that look at the same texts compare. */
export function headsOf(reading, kind) {
  const first = reading.entries.find(entry => entry.kind === kind);
  const alike = entry => entry.kind === kind && entry.rows === first.rows && entry.columns === first.columns;
  return reading.entries.flatMap((entry, n) => (alike(entry) ? entry.heads.map(head => headName(n, head)) : []));
}

/** The kinds of attention that a reading has, in the order of the model. */
export function kindsOf(reading) {
  return ["encoder", "cross", "decoder"].filter(kind => reading.entries.some(entry => entry.kind === kind));
}

/** The server's answers about a reading: what words look at, and which heads look from one word to another. */
export class Answers {
  /** `dense` is the largest number of weights in one answer; `changed()` is called when an answer has arrived, and
   *  `failed(error)` when the server cannot give it. */
  constructor(reading, dense, changed, failed) {
    Object.assign(this, {reading, changed, failed});
    const sizes = reading.entries.map(entry => entry.heads.length * entry.queries * entry.keys);
    this.dense = Math.max(...sizes) <= dense && sizes.reduce((a, b) => a + b, 0) <= MOST_FLOATS;
    this.kept = new Map();
  }

  /** What the word in rows start … stop looks at, the mean over heads of one kind: {looks: [[start, weight]],
   *  aside: [[sink, weight]], own}. Null where there is no such row; undefined until the answer has arrived. */
  looks(heads, aside, [start, stop]) {
    const queries = heads.length ? this.reading.entries[headOf(heads[0])[0]].queries : 0;
    if (start < 0 || stop > queries) return null;
    const rows = this.dense ? [0, queries] : [start, stop]; // all words of a short text at once
    const values = {reading: this.reading.id, heads: heads.join(","), rows, sinks: aside ? "aside" : "shown"};
    const answers = this.ask(query("/api/looks", values));
    return answers && (answers.find(answer => answer.start === start) ?? null);
  }

  /** The heads of a kind that look most from one word to another, as a promise: [{name, weight}]. */
  async heads(kind, row, column) {
    const entry = this.reading.entries.findIndex(one => one.kind === kind);
    const address = query("/api/heads", {reading: this.reading.id, entry, row, column});
    const ranked = this.ask(address) ?? (await this.kept.get(address));
    return ranked.map(([number, head, weight]) => ({name: headName(number, head), weight}));
  }

  /** An answer, if it has arrived; otherwise it is on its way. */
  ask(address) {
    if (!this.kept.has(address)) this.kept.set(address, this.fetch(address));
    const kept = this.kept.get(address);
    return kept instanceof Promise ? undefined : kept;
  }

  async fetch(address) {
    const answer = await getJson(address).catch(this.failed);
    this.kept.set(address, answer ?? []);
    if (answer) this.changed();
    return answer ?? [];
  }
}

/** Whether sinks are set aside: as chosen or, by default, unless a single head is shown. */
export function setsAside(sinks, heads) {
  return sinks === null ? heads.length !== 1 : !sinks;
}
