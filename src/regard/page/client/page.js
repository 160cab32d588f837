// The page of `regard serve`: a visitor types a text, the server reads it, and six views show the reading. The choices of
// the visitor are one plain object, `state`; `change` alters it, updates the views, and writes the address.

import {freshState, hashOf, stateOf} from "./address.js";
import {Answers, ApiError, getJson, headName, kindsOf, postRead} from "./api.js";
import {openLook} from "./look.js";
import {openMapTab} from "./map_tab.js";
import {openMatrices} from "./matrices.js";
import {saveMenu} from "./save.js";
import {openSteps} from "./steps.js";
import {asPercent, button, later, make, roving, themeNow} from "./ui.js";
import {openWhatIf} from "./whatif.js";
import {openWhy} from "./why.js";

const FIRST = "A dog ate the food because it was hungry."; // the textbook's sentence
const PAUSE = 350; // milliseconds after the last key until a text is read

const MOST_HIGH = 160; // pixels of the text field before it scrolls

const byId = name => document.getElementById(name);
const TAB_NAMES = ["look", "steps", "matrices", "why", "whatif", "map"];

/** Every view gets this: the state, the reading, the answers about it, and the functions that change them. */
const app = {
  about: null,
  state: freshState(),
  reading: null,
  answers: null,
  change,
  openPart,
  trouble: showTrouble,
  writeAddress: () => writeAddress.now(),
  opened: null, // the word and the heads that a text opened on, and why: {word, heads, why}
  views: {},
};

let coming = []; // the sentences that have arrived, each with its translation
let running = null; // the AbortController of the text that is being read

function change(patch, {history: kept = false} = {}) {
  if (kept) writeAddress.now(); // what was chosen before, to which the visitor may go back
  Object.assign(app.state, patch);
  if ("tab" in patch) showTab();
  for (const [name, view] of Object.entries(app.views)) if (name === app.state.tab) view.update(patch);
  if (kept) writeAddress.now(true);
  else writeAddress();
}

const writeAddress = later(() => writeAddress.now(), 250);
writeAddress.now = (push = false) => {
  writeAddress.cancel();
  const address = hashOf(app.state) || location.pathname;
  if (address === location.hash) return;
  history[push ? "pushState" : "replaceState"](null, "", address);
};

// Reading

async function read() {
  const text = app.state.text;
  running?.abort();
  const {characters} = app.about.limits;
  if (text.length > characters) {
    const [most, count] = [characters, text.length].map(number => number.toLocaleString("en"));
    fail(new ApiError(`a text has at most ${most} characters. This one has ${count}: give a part of it.`));
  }
  if (!text.trim() || text.length > characters) return;
  const mine = (running = new AbortController());
  coming = [];
  showTrouble(null);
  byId("progress").hidden = false;
  byId("progress").removeAttribute("value");
  app.views.look.preview(text, "");
  const body = {text};
  if (app.state.part) body.part = app.state.part;
  if (app.about.task === "generate") body.new_tokens = Number(byId("new-tokens").value);
  try {
    const reading = await postRead(body, event => onEvent(event, mine), mine.signal);
    if (mine === running) await take(reading, mine);
  } catch (error) {
    if (error.name === "AbortError" || mine !== running) return;
    fail(error);
  } finally {
    if (mine === running) {
      running = null;
      byId("progress").hidden = true;
    }
  }
}

/** Show an error, and nothing of the text before. */
function fail(error) {
  app.reading = null;
  byId("status").textContent = document.title = "regard";
  showSentences([], -1);
  showTrouble(error);
}

function onEvent(event, mine) {
  if (mine !== running) return;
  if (event.written !== undefined) app.views.look.preview(app.state.text, event.written);
  if (event.sentence) {
    coming.push(event.sentence);
    if (coming.length > 1) showSentences(coming, -1);
  }
  if (event.progress) byId("status").textContent = event.progress;
  if (event.share) byId("progress").value = event.share;
}

/** Show a reading that has arrived. */
async function take(reading, mine = running) {
  const {state, views} = app;
  app.reading = reading;
  document.body.classList.remove("empty");
  const {ids = [], index = 0, sentences = []} = reading.part ?? {};
  showSentences(
    ids.map((_, n) => sentences[n] ?? [sentences.length ? "The whole text, on one map" : `Text ${n + 1}`, ""]),
    index,
  );
  app.answers = new Answers(reading, app.about.limits.dense, () => views.look.draw(), showTrouble);
  state.part = reading.part?.index ?? 0;
  const isOwn = Object.keys(state.heads).length && state.heads !== app.opened?.heads; // heads that the visitor chose
  const isOpen = state.word || isOwn || (state.kind && !app.opened);
  const kinds = kindsOf(reading);
  if (!kinds.includes(state.kind)) state.kind = kinds.includes("cross") ? "cross" : kinds[0];
  if (!isOpen) openTelling(reading);
  await views.look.tieFirst();
  if (mine !== running) return;
  for (const view of Object.values(views)) view.onReading();
  byId("status").textContent = reading.written ? `${reading.written}` : "";
  document.title = `${reading.text.slice(0, 40)} – regard`;
  writeAddress();
}

/** List the sentences of a text, each with its translation, to look into one; `now` is the one that is shown. */
function showSentences(sentences, now) {
  const list = byId("sentences");
  byId("copy").hidden = !app.reading?.written && !coming.length;
  list.hidden = !sentences.length;
  list.replaceChildren(
    ...sentences.map(([source, written], n) => {
      const texts = [source, written].map((text, side) => make("span", {lang: written && app.codes[side]}, text));
      const choice = {"aria-current": String(n === now), disabled: now < 0, click: () => openPart(n)};
      return make("li", {}, button(choice, ...texts));
    }),
  );
}

async function copyWritten() {
  const text = app.reading.part?.sentences?.map(([, written]) => written).join("\n") || app.reading.written;
  await navigator.clipboard?.writeText(text);
  byId("copy").textContent = navigator.clipboard ? "Copied" : "Copy it from the text";
  setTimeout(() => (byId("copy").textContent = "Copy the translation"), 2000);
}

/** Another sentence of a text that was split, or the whole text. */
async function openPart(part) {
  Object.assign(app.state, {part, word: null, to: null, step: null, minus: null, hide: [], map: ""});
  const {ids, sentences} = app.reading.part;
  if (part === sentences.length && part) return read(); // the whole text is seen sentence by sentence
  try {
    await take(await getJson(`/api/reading/${encodeURIComponent(ids[part])}`));
  } catch (error) {
    if (error.status === 404)
      await read(); // the server does not keep it any more
    else showTrouble(error);
  }
}

/** Open a text on its most telling word and head: "it" in a head that was taught what it stands for or, by the rule of the
 *  server, the pair of words that stands out most. */
function openTelling(reading) {
  const [taught] = app.about.heads;
  const it = taught && (reading.sides.source?.words ?? []).find(([word]) => word.toLowerCase() === "it");
  const entry = reading.entries.findIndex(one => one.kind === "encoder" && one.layer === taught?.layer);
  const telling = it && entry >= 0 ? {entry, head: taught.head, token: it[1]} : reading.telling;
  Object.assign(app.state, {heads: {}, word: null});
  if (!telling) return;
  const {kind, rows} = reading.entries[telling.entry];
  const rule = "Opened on the two words, at least two apart, whose link stands out most in any head:";
  const why =
    telling.others === undefined
      ? `Opened on this head because it was taught ${taught.name}.`
      : `${rule} ${asPercent(telling.weight)}, where the other words give ${asPercent(telling.others)} on average.`;
  const opened = {word: {side: rows, token: telling.token}, heads: {[kind]: [headName(telling.entry, telling.head)]}};
  Object.assign(app.state, {kind, ...opened});
  app.opened = {...opened, why};
}

const readSoon = later(() => read(), PAUSE);

function typed(text, soon) {
  readSoon.cancel();
  if (app.state.to !== null) app.state.heads = {}; // they were chosen for two words of the old text
  Object.assign(app.state, {text, part: 0, word: null, to: null, step: null, minus: null, hide: [], map: ""});
  if (soon) readSoon();
  else read();
}

// Errors

const renewed = new Set(); // readings that the server did not keep, and whose text was read again

function showTrouble(error) {
  if (error?.status === 404 && app.reading && app.about.task !== "record" && !renewed.has(app.reading.id)) {
    renewed.add(app.reading.id);
    read();
    return;
  }
  const box = byId("trouble");
  box.hidden = !error;
  document.body.classList.toggle("empty", !app.reading);
  box.replaceChildren();
  if (!error) return;
  const known = error instanceof ApiError;
  const said = known ? error.message : `Something went wrong in this page: ${error.message}`;
  const again = () => (app.about ? read() : start());
  box.append(make("p", {}, said), button({click: again}, "Try again"));
  if (!known) throw error;
}

// Tabs, theme, form

function showTab() {
  for (const name of TAB_NAMES) {
    const tab = byId(`tab-${name}`);
    const shown = name === app.state.tab;
    tab.setAttribute("aria-selected", String(shown));
    tab.tabIndex = shown ? 0 : -1;
    byId(name).hidden = !shown;
  }
  document.body.dataset.tab = app.state.tab;
  app.views[app.state.tab]?.onShow?.();
}

function setUpTabs() {
  const tabs = TAB_NAMES.map(name => byId(`tab-${name}`));
  roving(tabs[0].parentElement, () => tabs.filter(tab => !tab.hidden));
  for (const [n, tab] of tabs.entries()) {
    tab.addEventListener("click", () => change({tab: TAB_NAMES[n]}, {history: true}));
  }
}

function stored(method, ...values) {
  try {
    return localStorage[method](...values);
  } catch {
    return null; // storage may be switched off: a choice lasts as long as the page
  }
}

function setUpTheme() {
  const button = byId("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = stored("getItem", "regard-theme");
  if (!["light", "dark"].includes(chosen)) chosen = "";
  const paint = theme => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    for (const view of Object.values(app.views)) view.onTheme?.();
  };
  const show = () => {
    paint(chosen);
    button.setAttribute("aria-pressed", String(themeNow() === "dark"));
  };
  addEventListener("beforeprint", () => paint("light"));
  addEventListener("afterprint", show);
  button.addEventListener("click", () => {
    chosen = button.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    stored("setItem", "regard-theme", chosen);
    show();
  });
  dark.addEventListener("change", show);
  show();
}

/** Three steps for a first minute, which are ticked as they are done, until the visitor closes them. */
function setUpGuide() {
  const guide = byId("guide");
  guide.hidden = app.about.task === "record" || stored("getItem", "regard-guide") === "closed";
  byId("guide-close").addEventListener("click", () => {
    guide.hidden = true;
    stored("setItem", "regard-guide", "closed");
  });
  const done = name => () => guide.querySelector(`[data-done="${name}"]`).classList.add("done");
  byId("look").addEventListener("pointerover", event => event.target.closest(".word") && done("hover")());
  byId("tab-steps").addEventListener("click", done("unfold"));
  byId("look").addEventListener("click", event => event.target.closest(".unfold") && done("unfold")());
  byId("text").addEventListener("input", done("change"));
}

function setUpForm() {
  const {about} = app;
  const field = byId("text");
  const named = {translate: app.languages[0] || "Text to translate", read: "Text", generate: "Prompt"};
  byId("ask").hidden = about.task === "record";
  document.querySelector(".ask-label").textContent = named[about.task] ?? "Text";
  byId("read").textContent = {translate: "Translate", generate: "Write on", read: "Read"}[about.task] ?? "Read";
  field.lang = about.task === "translate" ? app.codes[0] || "en" : "";
  byId("about").textContent = about.name;
  if (about.task === "generate") {
    const count = {type: "number", id: "new-tokens", min: 1, max: about.limits.new_tokens, value: 16};
    byId("about").before(make("label", {class: "quiet"}, make("input", count), " new tokens"));
  }
  const grow = () => {
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, MOST_HIGH)}px`;
  };
  field.addEventListener("input", () => {
    grow();
    if (about.task !== "generate") typed(field.value, true); // a continuation takes long: only after Enter
  });
  field.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    typed(field.value, false);
  });
  byId("ask").addEventListener("submit", event => {
    event.preventDefault();
    typed(field.value, false);
  });
  addEventListener("resize", grow);
  app.fill = text => {
    field.value = text;
    grow();
  };
  const example = text => button({class: "pill", lang: field.lang, click: () => openExample(text)}, text);
  byId("examples").append(...about.examples.map(example));
}

function openExample(text) {
  Object.assign(app.state, {heads: {}, kind: ""});
  app.fill(text);
  typed(text, false);
}

async function start() {
  showTrouble(null);
  try {
    app.about = await getJson("/api/about");
  } catch (error) {
    showTrouble(error);
    return;
  }
  app.codes = app.about.languages.split("-");
  const names = new Intl.DisplayNames(["en"], {type: "language"});
  app.languages = app.codes.map(code => (code ? names.of(code) : ""));
  setUpForm();
  app.views.look = openLook(byId("look"), app);
  app.views.steps = openSteps(byId("steps"), app);
  app.views.matrices = openMatrices(byId("matrices"), app);
  app.views.why = openWhy(byId("why"), app);
  app.views.whatif = openWhatIf(byId("whatif"), app);
  app.views.map = openMapTab(byId("map"), app);
  setUpTheme();
  setUpGuide();
  byId("copy").addEventListener("click", copyWritten);
  setUpTabs();
  saveMenu(app);
  byId("tab-why").hidden = app.about.task !== "translate";
  byId("tab-whatif").hidden = app.about.task !== "translate" && app.about.task !== "generate";
  addEventListener("popstate", restore);
  await restore();
}

/** Show the state that the address holds. */
async function restore() {
  const state = stateOf(location.hash);
  const same = app.reading && state.text === app.state.text && state.part === app.state.part;
  Object.assign(app.state, state);
  if (app.about.task === "record" && !location.hash) app.state.tab = "map";
  showTab();
  if (app.about.task === "record") {
    if (!app.reading)
      await take(await getJson(`/api/reading/${encodeURIComponent(app.about.reading)}`)).catch(showTrouble);
  } else {
    if (!app.state.text) app.state.text = app.about.examples[0] ?? FIRST;
    app.fill(app.state.text);
    if (!same) await read();
  }
  if (app.reading) app.views[app.state.tab].update(app.state);
}

start();
