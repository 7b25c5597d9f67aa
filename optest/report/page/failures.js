// The failing cases, first of all, some at a time.

const FAILURES_SHOWN = 25;

function failuresPart() {
  const { failures } = page;
  const list = el("ol", { class: "failures" });
  const more = el("button", { type: "button", onclick: () => add() });
  let shownSoFar = 0;
  const add = () => {
    const next = failures.slice(shownSoFar, shownSoFar + FAILURES_SHOWN);
    list.append(...next.map(failure));
    shownSoFar += next.length;
    const left = failures.length - shownSoFar;
    more.hidden = left === 0;
    more.textContent = `Show ${Math.min(left, FAILURES_SHOWN)} of ${left} more`;
  };
  add();
  return el(
    "section",
    { "aria-labelledby": "failing" },
    el("h2", { id: "failing", tabindex: -1 }, failures.length === 0 ? "No case failed" : counted(failures.length, "failing case")),
    failures.length === 0 ? null : [list, more],
  );
}

function failure(each) {
  const several = page.runs.length > 1 ? `, run ${page.runs[each.run].id}` : "";
  return el(
    "li",
    {},
    el("p", {}, el("strong", { class: "bad" }, each.status), " ", el("code", {}, each.id)),
    el("p", { class: "facts" }, `${each.card}${several}`),
    el("p", {}, each.reason),
    el("p", { class: "facts" }, "alone: ", el("code", {}, each.alone)),
    each.text === "" ? null : el("details", {}, el("summary", {}, "text"), el("pre", { tabindex: 0 }, each.text)),
    each.cut ? el("p", { class: "facts" }, "Its text is in the store; this page has no room left for it.") : null,
  );
}
