// Medians of one case over the runs that the store holds of it, and where they moved for good.

function past(view, row) {
  const { section } = view;
  const title = "History";
  const known = Object.entries(section.history).filter(([, rows]) => Object.hasOwn(rows, row));
  if (known.length === 0) {
    return empty(title, "This report holds no other run of the selected case on this machine.");
  }
  const columns = known.map(([name, rows]) => ({
    column: section.columns.find((each) => each.name === name),
    past: rows[row],
  }));
  const used = [...new Set(columns.flatMap((each) => each.past[0]))].sort((a, b) => a - b);
  const place = new Map(used.map((run, n) => [run, n]));
  const series = columns.map(({ column, past: [runs, medians] }) => ({
    series: seriesOf(section, column.candidate),
    column,
    points: runs.map((run, n) => [place.get(run), medians[n]]),
  }));
  const heights = series.flatMap((each) => each.points.map(([, y]) => y));
  const points = series.flatMap((each) =>
    each.points.map(([x, y]) => ({ series: each.series, x, y, name: each.column.name })),
  );
  return plot({
    title,
    note: `${section.ids[row]}${leftOut(page.history.left_out)}`,
    names: section.candidates.map(nameOf),
    x: { label: "commit, oldest first", scale: (a, b) => stepScale(used.map(shortRun), a, b) },
    y: { label: "us", scale: (a, b) => linearScale(heights, a, b) },
    points,
    textOf: ({ x, y, name }) => [runName(used[x]), `${name}: ${formatted(y)}`],
    lines: series,
    rules: columns.flatMap(({ column, past: [runs, , steps] }) =>
      steps.map(([at, ratio]) => step(place.get(runs[at]) - 0.5, `${nameOf(column.candidate)} ${moved(ratio)}`)),
    ),
  });
}

function leftOut(runs) {
  return runs > 0 ? ` (${counted(runs, "older run")} left out: a page has room for no more medians)` : "";
}

function step(x, text) {
  return (xs, ys) => ({ points: [[x, ys.low], [x, ys.high - (ys.high - ys.low) * 0.05]], text });
}

function shortRun(run) {
  const { commit, id, dirty } = page.history.runs[run];
  return `${commit ? commit.slice(0, 7) : id.slice(4, 13)}${dirty ? "*" : ""}`;
}

function runName(run) {
  const { commit, id, dirty, started } = page.history.runs[run];
  return `${id}, ${moment(started)}${commit ? `, commit ${commit.slice(0, 12)}` : ""}${dirty ? " (changed)" : ""}`;
}

// All changes of a section, the largest first; rows of several runs have one past.
function changesOf(section) {
  const found = new Map();
  for (const [name, rows] of Object.entries(section.history)) {
    for (const [row, [runs, , steps]] of Object.entries(rows)) {
      for (const [at, ratio] of steps) {
        const run = runs[at];
        found.set(`${run} ${wordOf(section.cards, row)} ${name} ${section.ids[row]}`, { name, row: Number(row), run, ratio });
      }
    }
  }
  return [...found.values()].sort((a, b) => Math.abs(Math.log(b.ratio)) - Math.abs(Math.log(a.ratio)));
}
