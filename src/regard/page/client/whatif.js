// What if: hide a word from the model or switch heads off, read the text again, and compare the two translations.

import {headOf, kindsOf, postRead} from "./api.js";
import {headGrid} from "./heads.js";
import {asPercent, button, counted, later, make, roving, shownWord} from "./ui.js";

/** The words of b, by the longest common subsequence with a: [[word, whether it is new]]. */
function changedWords(a, b) {
  const table = Array.from({length: a.length + 1}, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--)
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  }
  const found = [];
  for (let i = 0, j = 0; j < b.length;) {
    if (i < a.length && a[i] === b[j]) (found.push([b[j++], false]), i++);
    else if (i < a.length && table[i + 1][j] >= table[i][j + 1]) i++;
    else found.push([b[j++], true]);
  }
  return found;
}

/** The view "What if" in `root`. */
export function openWhatIf(root, app) {
  const words = make("div", {class: "pick-words", role: "group", "aria-label": "Hide words"});
  const grids = make("div", {class: "off-grids"});
  const before = make("p", {class: "written"});
  const after = make("p", {class: "written"});
  const said = make("p", {class: "quiet", role: "status"});
  const sure = [make("span", {class: "quiet"}), make("span", {class: "quiet"})];
  const reset = button({class: "link", click: () => app.change({hide: [], off: []})}, "put everything back");
  const hint = text => make("p", {class: "quiet"}, text);
  const card = (title, ...parts) => make("div", {class: "card"}, make("h2", {}, title), ...parts);
  const half = (title, share, text) => make("div", {}, make("h2", {}, title, share), text);
  const compare = [half("As it is ", sure[0], before), half("What if ", sure[1], after), said];
  const hiding = "The model may not look at it: its weight is 0 wherever words of the source are looked at.";
  const switching = "A head that is off adds nothing to what its layer makes of a word.";
  root.append(
    make("div", {class: "card compare"}, ...compare),
    card("Hide a word", hint(hiding), words),
    card("Switch heads off", hint(switching), grids),
  );
  roving(words, () => [...words.children]);
  let running = null;
  let done = "";
  const runSoon = later(() => run(), 200);

  function build() {
    const {source} = app.reading.sides;
    const list = (source.words ?? source.tokens.map((token, n) => [token, n, n + 1])).slice(0, 300);
    words.lang = app.codes[0] ?? "";
    words.replaceChildren(
      ...list.map(([text, start, stop], n) => {
        const attributes = {class: "pick", tabindex: n ? -1 : 0, "data-start": start};
        return button({...attributes, click: () => toggleWord(start, stop)}, make("bdi", {}, shownWord(text)));
      }),
    );
    grids.replaceChildren(...kindsOf(app.reading).map(kind => headGrid(app, [kind], toggleHead)));
    before.lang = after.lang = app.codes[1] ?? "";
    done = "";
  }

  function toggleWord(start, stop) {
    const tokens = Array.from({length: stop - start}, (_, n) => start + n);
    const {hide} = app.state;
    const rest = hide.filter(token => !tokens.includes(token));
    app.change({hide: hide.includes(start) ? rest : [...rest, ...tokens].sort((a, b) => a - b)});
  }

  function toggleHead(name) {
    const {off} = app.state;
    app.change({off: off.includes(name) ? off.filter(one => one !== name) : [...off, name]});
  }

  function update() {
    if (!app.reading) return;
    const {hide, off} = app.state;
    for (const button of words.children) {
      const gone = hide.includes(Number(button.dataset.start));
      button.setAttribute("aria-pressed", String(gone));
      button.classList.toggle("gone", gone);
    }
    for (const button of grids.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(off.includes(button.dataset.head)));
    before.textContent = writtenOf(app.reading);
    sure[0].textContent = sureness(app.reading);
    const asked = JSON.stringify([app.reading.id, hide, off]);
    reset.remove();
    if (!hide.length && !off.length) {
      running?.abort();
      done = asked;
      after.textContent = writtenOf(app.reading);
      sure[1].textContent = "";
      said.textContent = "Nothing is changed yet: hide a word or switch off a head below.";
    } else if (asked !== done) {
      done = asked;
      after.classList.add("waiting");
      said.textContent = "Reading again…";
      runSoon();
    } else {
      said.append(" ", reset);
    }
  }

  async function run() {
    running?.abort();
    const mine = (running = new AbortController());
    const {text, part, hide, off} = app.state;
    const body = {text, part, hide, off: off.map(headOf)};
    try {
      const tell = event => mine === running && event.written !== undefined && (after.textContent = event.written);
      const reading = await postRead(body, tell, mine.signal);
      if (mine !== running) return;
      const [was, is] = [app.reading, reading].map(one => writtenOf(one).split(/\s+/).filter(Boolean));
      const marked = changedWords(was, is);
      after.replaceChildren(...marked.flatMap(([word, fresh]) => [fresh ? make("mark", {}, word) : word, " "]));
      if (!is.length) after.append(make("span", {class: "quiet"}, "(nothing)"));
      const fresh = marked.filter(([, isNew]) => isNew).length;
      const hidden = [...words.children].filter(button => hide.includes(Number(button.dataset.start)));
      const parts = hidden.length ? [`without ${hidden.map(button => `“${button.textContent}”`).join(", ")}`] : [];
      if (off.length) parts.push(`with ${counted(off.length, "head")} off`);
      const gone = was.length + fresh - is.length;
      said.textContent = `${fresh || gone ? `${counted(Math.max(fresh, gone), "word")} changed` : "Nothing changes"} ${parts.join(" and ")}.`;
      if (reading.changed) said.append(` ${reading.changed}`);
      said.append(" ", reset);
      sure[1].textContent = sureness(reading);
    } catch (error) {
      if (error.name === "AbortError") return;
      said.textContent = error.message;
      done = "";
    } finally {
      if (mine === running) after.classList.remove("waiting");
    }
  }

  const sureness = reading =>
    typeof reading.confidence === "number" ? `confidence ${asPercent(Math.round(100 * reading.confidence) / 100)}` : "";
  const writtenOf = reading => reading.written ?? reading.text;

  return {
    onReading() {
      build();
      if (app.state.tab === "whatif") update();
    },
    update,
    onShow: update,
    picture: () => root,
  };
}
