// Two runs side by side: what changed, the worst first.

function comparePart() {
  const made = page.compare;
  if (made === null) return [];
  const heading = el("h2", { id: "comparison", tabindex: -1 }, `Comparison: ${made.head} over ${made.base}`);
  const part = el("section", { "aria-labelledby": "comparison", class: "comparison" }, heading);
  if (made.fault) part.append(el("p", {}, made.fault));
  else part.append(...comparisonBody(made));
  return [part];
}

function comparisonBody(made) {
  const section = made.table;
  const names = made.means.map((each) => each.candidate);
  const picture = el("div", { class: "pictures" });
  const chosen = el("div");
  const view = { section, names, rows: Array.from({ length: section.rows }, (_, row) => row) };
  view.pick = (row) => {
    table.select(row);
    chosen.replaceChildren(linePanel(section, row));
  };
  const drawn = () => picture.replaceChildren(changePicture(view));
  const table = new Table(
    section,
    verdictChoice(section, made.counts),
    (rows) => {
      view.rows = rows;
      drawn();
    },
    (row) => chosen.replaceChildren(linePanel(section, row)),
  );
  whenNear(table.node, drawn);
  const counts = Object.entries(made.counts).map(([verdict, count]) => `${count.toLocaleString("en")} ${verdict}`);
  return [
    el("p", { class: "totals" }, counts.join(", ")),
    made.differences.length > 0
      ? el("div", { class: "bad" }, "Not measured alike:", el("ul", {}, made.differences.map((each) => el("li", {}, each))))
      : null,
    el("ul", {}, made.means.map((each) => el("li", {}, meanText(each)))),
    el("ul", { class: "facts" }, made.notes.map((each) => el("li", {}, each))),
    table.node,
    chosen,
    picture,
  ].filter((each) => each !== null);
}

function meanText({ candidate, ratio, low, high }) {
  const known = low > 0 && high !== null && high !== "inf";
  const interval = known ? between(moved(low), moved(high)) : "";
  return `${nameOf(candidate)}: geometric mean ${moved(ratio)}${interval}`;
}

function verdictChoice(section, counts) {
  const bad = new Set(section.bad);
  const state = stateOf(section);
  return {
    label: "Verdict",
    words: Object.keys(counts),
    example: "slower change>1.1",
    bad: (row) => bad.has(row),
    fits: (row, word) => valueOf(state, row) === word,
  };
}

function lineText(section, row) {
  const [verdict, , candidate, base, head, change, low, high] = section.columns.map((each) => shown(each, row));
  const times = base !== "" && head !== "" ? `${base} us, then ${head} us` : base + head === "" ? "" : `${base || head} us`;
  return [section.ids[row], `${nameOf(candidate)}: ${verdict} ${change}${between(low, high)}`, times].filter((each) => each !== "");
}

function linePanel(section, row) {
  const more = [wordOf(section.reasons, row), wordOf(section.notes, row)].filter((each) => each !== "");
  const [id, ...lines] = lineText(section, row);
  return el(
    "div",
    { class: "panel" },
    el("h4", {}, id),
    [...lines, ...more].map((each) => el("p", {}, each)),
  );
}

function changePicture(view) {
  const { section, names } = view;
  const columns = Object.fromEntries(section.columns.map((each) => [each.name, each]));
  const title = "Change over time of a call";
  const points = view.rows
    .filter((row) => isRate(valueOf(columns["base us"], row)) && valueOf(columns.change, row) !== null)
    .map((row) => ({
      series: names.indexOf(valueOf(columns.candidate, row)),
      row,
      x: valueOf(columns["base us"], row),
      y: 100 * (valueOf(columns.change, row) - 1),
    }));
  if (points.length === 0) return empty(title, "No case was timed in both runs.");
  return plot({
    title,
    note: "above 0: slower than before",
    names: names.map(nameOf),
    x: { label: "us before", scale: (a, b) => logScale(points.map((each) => each.x), a, b) },
    y: { label: "change in %", scale: (a, b) => linearScale([...points.map((each) => each.y), -5, 5], a, b) },
    points,
    textOf: ({ row }) => lineText(section, row),
    rules: [flat("", 0)],
    pick: view.pick,
  });
}
