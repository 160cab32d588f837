// Tokens as a text to read and to search, as token_text.py does it.

/** Tokens as they read, with the space before them, from what a tokenizer writes: "▁dog", "##s". */
export function readableTokens(tokens) {
  if (tokens.some(token => /^[▁Ġ]/.test(token))) {
    return tokens.map(token => token.replaceAll("<0x0A>", "\n").replace(/[▁Ġ]/g, " ").replaceAll("Ċ", "\n"));
  }
  if (tokens.some(token => /^\s|\s$/.test(token))) return tokens;
  const closing = /^[.,;:!?)\]}»”…%'’]$/;  // no space before these
  return tokens.map(token => /^##./.test(token) ? token.slice(2) : closing.test(token) ? token : ` ${token}`);
}

/** The tokens at which a text begins, in any case: as whole words or, where there are none, as parts of words. */
export function findInTokens(tokens, text, limit = 1000) {
  const wanted = text.toLowerCase().trim().replace(/\s+/g, " ");
  if (!wanted) return [];
  const lowered = tokens.map(token => token.toLowerCase().replace(/[\n\t]/g, " "));
  const starts = [0];
  for (const token of lowered) starts.push(starts[starts.length - 1] + token.length);
  const joined = lowered.join(""), letter = /[\p{L}\p{N}]/u;
  const whole = new Set(), parts = new Set();
  let token = 0;
  for (let at = joined.indexOf(wanted); at >= 0 && whole.size < limit; at = joined.indexOf(wanted, at + 1)) {
    while (starts[token + 1] <= at) token++;
    const after = at + wanted.length;
    const cut = (one, other) => letter.test(joined[one] ?? "") && letter.test(joined[other] ?? "");
    if (!cut(at - 1, at) && !cut(after - 1, after)) whole.add(token);
    else if (parts.size < limit) parts.add(token);
  }
  return [...(whole.size ? whole : parts)];
}

/** A token in one line, for a ruler or a cell: line ends are signs, and so is a space alone. */
export function inOneLine(token) {
  return token.trim() || token.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";
}
