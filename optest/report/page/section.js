// A test function: its table, the pictures of the rows that pass the filter, the selected case.

const CHANGES_SHOWN = 10;

function sectionPart(section) {
  const heading = freshId("section");
  const pictures = el("div", { class: "pictures" });
  const chosen = el("div", { class: "pictures" });
  const changes = el("div");
  const view = { section, rows: Array.from({ length: section.rows }, (_, row) => row) };
  const pick = (row) => {
    table.select(row);
    show(row);
  };
  view.pick = pick;
  const show = (row) => {
    chosen.replaceChildren(panel(section, row), distribution(view, row), past(view, row));
  };
  const table = new Table(
    section,
    statusChoice(section),
    (rows) => {
      view.rows = rows;
      drawn();
    },
    show,
  );
  const choices = axisChoices(section, () => drawn());
  const drawn = () => {
    const argument = choices.argument();
    const swept = argument ? QUANTITIES.map((each) => [each, argument]) : [];
    pictures.replaceChildren(
      ...rooflines(view),
      ...swept
        .filter(([quantity]) => section.columns.some((each) => each.quantity === quantity && each.numbers))
        .map(([quantity]) => overAxis(view, argument, quantity)),
    );
  };
  const node = el(
    "section",
    { "aria-labelledby": heading, class: "function" },
    el("h2", { id: heading, tabindex: -1 }, section.function || section.file),
    el("p", { class: "facts" }, `${section.file}, ${counted(section.rows, "row")}`),
    table.node,
    choices.node,
    pictures,
    chosen,
    changes,
  );
  whenNear(node, () => {
    drawn();
    changes.replaceChildren(...changeList(section, pick));
    if (table.rows.length > 0) pick(table.rows[0]);
  });
  return { node, heading, name: section.function || section.file };
}

function statusChoice(section) {
  const state = stateOf(section);
  const bad = (row) => BAD.includes(valueOf(state, row));
  return {
    label: "Status",
    words: ["failing", "passed"],
    example: "m=16 us<20 bf16",
    bad,
    fits: (row, word) => bad(row) === (word === "failing"),
  };
}

// Pictures are drawn when the reader comes near them.
function whenNear(node, work) {
  if (!("IntersectionObserver" in window)) {
    work();
    return;
  }
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((each) => each.isIntersecting)) return;
      observer.disconnect();
      work();
    },
    { rootMargin: "600px" },
  );
  observer.observe(node);
}

function axisChoices(section, changed) {
  const arguments_ = axesOf(section);
  const id = freshId("axis");
  const select = el(
    "select",
    { id, onchange: changed },
    arguments_.map((each, n) => el("option", { value: n }, each.name)),
  );
  return {
    argument: () => arguments_[Number(select.value)],
    node:
      arguments_.length > 1
        ? el("div", { class: "controls" }, el("label", { for: id }, "Pictures over "), select)
        : null,
  };
}

function changeList(section, pick) {
  const found = changesOf(section);
  if (found.length === 0) return [];
  const line = ({ name, row, run, ratio }) =>
    el(
      "li",
      {},
      el("button", { type: "button", onclick: () => pick(row) }, section.ids[row]),
      ` ${name} ${moved(ratio)} since ${shortRun(run)}`,
    );
  const more = found.length - CHANGES_SHOWN;
  return [
    el("h3", {}, counted(found.length, "change point")),
    el("ul", { class: "changes" }, found.slice(0, CHANGES_SHOWN).map(line)),
    more > 0 ? el("p", { class: "facts" }, `and ${counted(more, "smaller one")}`) : null,
  ].filter((each) => each !== null);
}
