// The page, top to bottom.

function totalsText(totals) {
  const counts = Object.entries(totals).filter(([, count]) => count > 0);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const parts = counts.map(([status, count]) => `${count.toLocaleString("en")} ${status === "missing" ? "not run" : status}`);
  return [counted(total, "case"), parts.join(", ")].filter((each) => each !== "").join(": ");
}

function runPart(run) {
  const pair = (name, text) => (text ? [el("dt", {}, name), el("dd", {}, text)] : []);
  const named = (facts) =>
    Object.entries(facts)
      .map(([name, value]) => `${name} ${value}`)
      .join(", ");
  return el(
    "article",
    { class: "run" },
    el("h3", {}, run.id),
    el("p", { class: "totals" }, totalsText(run.totals)),
    el(
      "dl",
      {},
      pair("commit", run.commit && `${run.commit.slice(0, 12)}${run.dirty ? " (changed)" : ""}${run.branch ? ` on ${run.branch}` : ""}`),
      pair("card", [run.gfx, run.device].filter((each) => each).join(" ")),
      pair("host", run.host),
      pair("driver", run.driver),
      pair("versions", named(run.versions)),
      pair("variables", named(run.environment)),
      pair("started", moment(run.started)),
      pair("mode", run.mode === "check" ? "check: correctness alone, nothing was timed" : ""),
      pair("state", run.state === "complete" ? "" : `${run.state}: this is what it had when the page was made`),
    ),
  );
}

function contents(parts) {
  return el(
    "nav",
    { "aria-label": "Test functions" },
    el(
      "ul",
      {},
      parts.map(({ heading, name }) => el("li", {}, el("a", { href: `#${heading}` }, name))),
    ),
  );
}

const sections = page.sections.map(sectionPart);
document.getElementById("main").append(
  el("header", {}, el("h1", {}, "optest report"), el("div", { class: "runs" }, page.runs.map(runPart))),
  failuresPart(),
  ...comparePart(),
  ...(sections.length > 0 ? [contents(sections)] : []),
  ...sections.map((each) => each.node),
  el("footer", {}, `Made ${moment(page.made)} by optest ${page.optest}.`),
);
