// The tokens of both sides, fetched in pieces when they come into sight.

const tokenPiece = 1024;

/** The tokens of one side: get(n) gives a text, or asks for it and gives undefined until `changed()` is called. */
export function tokenCache(feed, side, count, changed) {
  const pieces = new Map();
  const piece = number => {
    if (!pieces.has(number)) {
      const held = {tokens: null};
      held.promise = feed.tokens(side, number * tokenPiece, Math.min((number + 1) * tokenPiece, count)).then(tokens => {
        held.tokens = tokens;
        changed();
        return tokens;
      }).catch(() => {
        setTimeout(() => pieces.delete(number), 3000);
        return [];
      });
      pieces.set(number, held);
    }
    return pieces.get(number);
  };
  return {
    get: n => piece(Math.floor(n / tokenPiece)).tokens?.[n % tokenPiece],
    /** Some tokens, once they are there. */
    async range(start, stop) {
      const from = Math.max(start, 0), to = Math.min(stop, count), found = [];
      for (let number = Math.floor(from / tokenPiece); number * tokenPiece < to; number++) {
        found.push(...await piece(number).promise);
      }
      const skipped = Math.floor(from / tokenPiece) * tokenPiece;
      return found.slice(from - skipped, to - skipped);
    },
  };
}
