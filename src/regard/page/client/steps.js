// Unfold the steps: choose a word, a layer and a head, and walk through every number there.

import {getJson, query} from "./api.js";
import {chosenStep, openModel} from "./model.js";
import {make, showWords} from "./ui.js";
import {walkOf} from "./walk.js";

const NEAR = 30; // words before and after the chosen word of a long text

/** The view "Steps" in `root`. */
export function openSteps(root, app) {
  const chooser = make("div", {class: "card chooser"});
  const body = make("div", {class: "steps-body"});
  const model = openModel(app, () => (toFeed = true));
  root.append(chooser, make("div", {class: "walked"}, model.element, body));
  let walk = null; // the walk on the page
  let shown = ""; // the name of its numbers
  let latest = 0;
  let toFeed = false; // the visitor walks to the feed-forward layer

  const go = patch => app.change({step: {...chosenStep(app), ...patch}});

  async function update() {
    if (!app.reading?.entries.length) return;
    const step = model.update();
    const name = [app.reading.id, step.entry, step.head, step.token].join(" ");
    const {rows} = app.reading.entries[step.entry];
    const listed = app.reading.sides[rows].tokens.map((token, n) => [token, n]);
    const near = listed.filter(([, n]) => Math.abs(n - step.token) <= NEAR);
    const words = near.length ? near : [[`token ${step.token}`, step.token]];
    chooser.lang = app.codes[rows === "source" ? 0 : 1] ?? "";
    showWords(chooser, "The word to unfold", words, step.token, n => go({token: n, key: null}));
    if (name === shown) return refresh();
    const mine = ++latest;
    body.setAttribute("aria-busy", "true");
    try {
      const {entry, head, token} = step;
      const numbers = await getJson(query("/api/steps", {reading: app.reading.id, entry, head, token}));
      if (mine !== latest) return;
      shown = name;
      open(step, numbers);
    } catch (error) {
      if (mine === latest) app.trouble(error);
    } finally {
      if (mine === latest) body.removeAttribute("aria-busy");
    }
  }

  function open(step, numbers) {
    const entry = app.reading.entries[step.entry];
    const next = app.reading.entries.findIndex(one => one.kind === entry.kind && one.layer === entry.layer + 1);
    const on = () => {
      go({entry: next, key: null});
      root.scrollIntoView({block: "start"});
      chooser.querySelector('[aria-pressed="true"]')?.focus({preventScroll: true});
    };
    walk = walkOf(step, numbers, entry, {
      to: key => go({key}),
      divide: divisor => app.change({divisor}),
      on: next >= 0 ? on : null,
    });
    body.replaceChildren(...walk.elements);
    refresh();
  }

  function refresh() {
    walk?.refresh(chosenStep(app).key, app.state.divisor);
    if (toFeed) walk?.toFeed();
    toFeed = false;
  }

  return {
    onReading() {
      shown = "";
      if (app.state.tab === "steps") update();
    },
    update,
    onShow: update,
    onTheme: () => walk?.paints.forEach(paint => paint()),
    picture: () => body,
  };
}
