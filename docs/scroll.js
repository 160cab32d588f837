// What scrolls sideways can be scrolled with the keyboard and says what it is; what fits is no stop of the tab key.
const boxes = ".picture, .formula, div.output, .md-typeset__scrollwrap, pre > code";
const names = { picture: "Picture", formula: "Formula", "md-typeset__scrollwrap": "Table" };

function label() {
  for (const box of document.querySelectorAll(boxes)) {
    const scrolls = box.scrollWidth > box.clientWidth;
    if (scrolls === box.hasAttribute("aria-label")) continue;
    if (scrolls) {
      const name = box.tagName === "CODE" ? "Code" : names[box.classList[0]] || "Output";
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", `${name}, wider than the page: scroll sideways`);
    } else for (const attribute of ["tabindex", "role", "aria-label"]) box.removeAttribute(attribute);
  }
}

addEventListener("load", label); // after the theme has put tables into their boxes
addEventListener("resize", label);
new MutationObserver(label).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
