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
export async function getFloats(address) {
  const response = await asked(address);
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
