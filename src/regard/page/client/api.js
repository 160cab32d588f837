// The server's answers: JSON, arrays of floats, and a text that is read while its events arrive. Every failure is an
// ApiError whose message can be shown as it is.

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message.slice(0, 1).toUpperCase() + message.slice(1));
    this.status = status;
  }
}

const SILENT = "The server does not answer. Is `regard serve` still running?";

async function asked(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(SILENT);
  }
  if (response.ok) return response;
  let said = "";
  try {
    said = (await response.json()).error;
  } catch {
    said = "";
  }
  throw new ApiError(
    said || `The server could not answer (${response.status}). Try again in a moment.`,
    response.status,
  );
}

/** A JSON answer. */
export async function getJson(address) {
  return (await asked(address)).json();
}

/** An array of little-endian floats and its shape. */
export async function getFloats(address, signal) {
  const response = await asked(address, {signal});
  const shape = (response.headers.get("X-Shape") ?? "")
    .split(/[^0-9]+/)
    .filter(Boolean)
    .map(Number);
  return {shape, data: new Float32Array(await response.arrayBuffer())};
}

/** A file. */
export async function getBlob(address) {
  return (await asked(address)).blob();
}

/** An address with its query. */
export function query(path, values) {
  return `${path}?${new URLSearchParams(values)}`;
}

/** Read a text; `tell` gets every event on the way. Gives the reading. */
export async function postRead(body, tell, signal) {
  const response = await asked("/api/read", {
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

const MOST_FLOATS = 1 << 24; // held in the page, all entries together; beyond that, rows are asked for
const AT_ONCE = 4;
const MOST_BINS = 512; // of one tile

/** A head as the address and the API write it: "entry.head". */
export const headName = (entry, head) => `${entry}.${head}`;

/** [entry, head] of such a name. */
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

/** The weights of one reading: dense ones are kept; of long texts, single rows are asked for. */
export class Weights {
  constructor(reading, dense) {
    this.reading = reading;
    const sizes = reading.entries.map(entry => entry.heads.length * entry.queries * entry.keys);
    this.dense = Math.max(...sizes) <= dense && sizes.reduce((a, b) => a + b, 0) <= MOST_FLOATS;
    this.entries = new Map();
    this.rows = new Map();
  }

  /** Fetch the dense weights of all entries, a few at a time. */
  async prefetch() {
    if (!this.dense) return;
    const queue = this.reading.entries.map((_, n) => n);
    const work = async () => {
      for (let n = queue.shift(); n !== undefined; n = queue.shift()) {
        const address = query("/api/weights", {reading: this.reading.id, entry: n});
        this.entries.set(n, (await getFloats(address)).data);
      }
    };
    await Promise.all(Array.from({length: AT_ONCE}, work));
  }

  /** The mean over heads (all of one kind) of the mean over rows start … stop; null while it is not there. */
  mean(heads, [start, stop]) {
    if (!heads.length) return null;
    const {queries, keys} = this.reading.entries[headOf(heads[0])[0]];
    if (start < 0 || stop > queries) return null;
    if (!this.dense) return this.rows.get(this.rowsName(heads, start, stop)) ?? null;
    const total = new Float64Array(keys);
    for (const name of heads) {
      const [entry, head] = headOf(name);
      const data = this.entries.get(entry);
      if (!data) return null;
      const place = this.reading.entries[entry].heads.indexOf(head);
      for (let row = start; row < stop; row++) {
        const from = (place * queries + row) * keys;
        for (let key = 0; key < keys; key++) total[key] += data[from + key];
      }
    }
    return total.map(sum => sum / (heads.length * (stop - start)));
  }

  rowsName(heads, start, stop) {
    return `${start}-${stop}:${heads.join(",")}`;
  }

  /** Ask for `mean` of these rows, of a long text: its columns first … last, and its sinks. The rest stays 0. */
  async fetchMean(heads, [start, stop], [first, last]) {
    if (this.dense || !heads.length) return;
    const {keys, sinks} = this.reading.entries[headOf(heads[0])[0]];
    const parts = sinks.filter(sink => sink < first || sink >= last).map(sink => [sink, sink + 1]);
    for (let from = first; from < last; from += MOST_BINS) parts.push([from, Math.min(from + MOST_BINS, last)]);
    const row = new Float64Array(keys);
    await Promise.all(
      parts.map(async ([from, to]) => {
        const values = {
          reading: this.reading.id,
          heads: heads.join(","),
          rows: `${start},${stop}`,
          columns: `${from},${to}`,
          bins: `1,${to - from}`,
        };
        row.set((await getFloats(query("/api/tile", values))).data, from);
      }),
    );
    this.rows.set(this.rowsName(heads, start, stop), row);
  }
}

/** Whether sinks are set aside: as was asked or, by default, unless one head is asked. */
export function setsAside(sinks, heads) {
  return sinks === null ? heads.length !== 1 : !sinks;
}

/** What a row of weights says about words: [{text, start, stop, weight}], what was set aside, and what is missing from
 *  the row: the share of sinks that are no tokens or, of a `partial` row, of words that are not shown. `words` are those of
 *  the columns. */
export function answerOf(row, words, sinks, aside, partial) {
  const total = row.reduce((sum, weight) => sum + weight, 0);
  const missing = total > 0 && total < 1 - 1e-4 ? 1 - total : 0;
  const own = partial ? 0 : missing;
  const set = aside ? sinks.filter(sink => row[sink] > 0) : [];
  const away = new Set(set);
  const left = row.reduce((sum, weight, n) => sum + (away.has(n) ? 0 : weight), partial ? missing : 0);
  const rest = aside && (set.length || own) ? left : 1;
  const found = [];
  for (const [text, start, stop] of words) {
    let weight = 0;
    let seen = false;
    for (let n = start; n < stop; n++) {
      if (away.has(n)) continue;
      weight += row[n];
      seen = seen || row[n] > 0;
    }
    if (seen) found.push({text, start, stop, weight: weight / Math.max(rest, 1e-9)});
  }
  const named = set.map(sink => ({position: sink, weight: row[sink]}));
  return {found, aside: named, own: aside ? own : 0, outside: partial ? missing / Math.max(rest, 1e-9) : 0};
}

/** The heads of a kind that look most from one word to another, in plain shares: [{name, weight}]. */
export function headsBetween(weights, kind, rows, [start, stop]) {
  const found = headsOf(weights.reading, kind).map(name => {
    const row = weights.mean([name], rows);
    let weight = 0;
    for (let n = start; row && n < stop; n++) weight += row[n];
    return {name, weight};
  });
  return found.sort((a, b) => b.weight - a.weight);
}
