// The selected case: what is known of it beyond its row.

function panel(section, row) {
  const reason = wordOf(section.reasons, row);
  const notes = wordOf(section.notes, row);
  const timed = section.columns.filter((each) => each.timing && wordOf(each.timing.how, row) !== "");
  return el(
    "div",
    { class: "panel" },
    el("h4", {}, section.ids[row]),
    el("p", { class: "facts" }, wordOf(section.cards, row)),
    reason ? el("p", { class: "bad" }, reason) : null,
    notes ? el("p", {}, notes) : null,
    timed.length === 0
      ? null
      : el("ul", {}, timed.map((each) => el("li", {}, timingText(each, row)))),
  );
}

function timingText(column, row) {
  const { timing } = column;
  const interval = between(formatted(timing.low[row]), formatted(timing.high[row]));
  return `${column.name} ${formatted(valueOf(column, row))}${interval}; ${wordOf(timing.how, row)}`;
}
