// The whole model as a picture that can be walked: every layer with its heads and its feed-forward layer, and where the
// word is now. The step that "Steps" and "Matrices" show is the one that it stands at.

import {headOf, kindsOf} from "./api.js";
import {headGrid, kindInWords} from "./heads.js";
import {button, make, shownWord} from "./ui.js";

/** The step to unfold: as chosen, or the chosen word in the first chosen head, or the first word. */
export function chosenStep({state, reading}) {
  const {step} = state;
  const at = reading.entries[step?.entry];
  if (at?.heads.includes(step.head) && at.rows === step.side && step.token < at.queries) return step;
  const kind = kindsOf(reading).includes(state.kind) ? state.kind : kindsOf(reading)[0];
  const [name] = state.heads[kind] ?? [];
  const [entry, head] = name ? headOf(name) : [reading.entries.findIndex(one => one.kind === kind), 0];
  const {rows, queries} = reading.entries[entry];
  const token = state.word?.side === rows ? state.word.token : 0;
  return {entry, head, side: rows, token: Math.min(token, queries - 1), key: null};
}

/** The picture: `element`, and `update()`, which returns the step. `toFeed()` is called before a walk to the feed-forward
 *  layer. */
export function openModel(app, toFeed = null) {
  const title = make("h2", {}, "The model");
  const place = make("p", {class: "quiet", role: "status"});
  const stacks = make("div", {class: "stacks"});
  const back = button({class: "link", click: () => history.back()}, "← back");
  const element = make("div", {class: "card model"}, title, place, stacks, back);
  let built = null;

  /** Walk to a head; a word of another text is left for the first word. */
  function walkTo(entry, head, feed = false) {
    const {rows, queries, kind} = app.reading.entries[entry];
    const step = chosenStep(app);
    const token = Math.min(rows === step.side ? step.token : 0, queries - 1);
    if (feed) toFeed();
    app.change({kind, book: "", step: {entry, head, side: rows, token, key: null}}, {history: true});
  }

  function build() {
    const {reading, languages} = app;
    const kinds = kindsOf(reading);
    const cross = kinds.includes("cross");
    const after = n => {
      const {kind, heads} = reading.entries[n];
      if (!toFeed || !reading.inside || (cross && kind === "decoder")) return null;
      return button(
        {class: "feed", tabindex: -1, click: () => walkTo(n, Math.min(chosenStep(app).head, heads.length - 1), true)},
        "feed-forward",
      );
    };
    const stack = some => headGrid(app, some, name => walkTo(...headOf(name)), after);
    const flow = text => make("p", {class: "quiet"}, text);
    stacks.replaceChildren(
      flow(`${languages[0] || "words"} → vectors + positions ↓`),
      ...(cross
        ? [stack(["encoder"]), flow("↓ what every cross-attention looks at"), stack(["decoder", "cross"])]
        : kinds.map(kind => stack([kind]))),
      flow(reading.sides.target ? `↓ ${languages[1] || "written text"}, token by token` : "↓ a vector for each token"),
    );
    built = reading;
  }

  return {
    element,
    update() {
      if (built !== app.reading) build();
      const step = chosenStep(app);
      const entry = app.reading.entries[step.entry];
      const token = app.reading.sides[step.side].tokens[step.token] ?? `token ${step.token}`;
      const where = `${kindInWords(entry.kind)}, layer ${entry.layer}, head ${step.head}`;
      place.replaceChildren(make("bdi", {class: "the-word"}, shownWord(token.trim())), ` is in ${where}.`);
      for (const one of stacks.querySelectorAll("[data-head]")) {
        const isHere = one.dataset.head === `${step.entry}.${step.head}`;
        one.setAttribute("aria-pressed", String(isHere));
        one.closest(".off-row").classList.toggle("here", headOf(one.dataset.head)[0] === step.entry);
      }
      return step;
    },
  };
}
