// The samples of one case, by candidate: each sample a point, quartiles and median as lines.

function distribution(view, row) {
  const { section } = view;
  const title = "Distribution of samples";
  const timed = section.columns
    .filter((each) => each.timing && each.timing.samples[row] && each.timing.samples[row].length > 0)
    .map((each) => ({ column: each, samples: each.timing.samples[row].map(asNumber) }));
  if (timed.length === 0) return empty(title, "The selected case has no samples.");
  const points = timed.flatMap(({ column, samples }, lane) =>
    samples.map((x, n) => ({
      series: seriesOf(section, column.candidate),
      x,
      y: lane + (((n * 0.618) % 1) - 0.5) * 0.5,
      lane,
      number: n + 1,
    })),
  );
  const lines = timed.flatMap(({ column, samples }, lane) =>
    [0.25, 0.5, 0.75].map((share) => {
      const at = quantile(samples, share);
      const reach = share === 0.5 ? 0.42 : 0.3;
      return { series: seriesOf(section, column.candidate), points: [[at, lane - reach], [at, lane + reach]] };
    }),
  );
  return plot({
    title,
    note: `${section.ids[row]}${page.thinned ? ` (evenly spaced quantiles, at most ${page.thinned})` : ""}`,
    names: [],
    x: { label: "us", scale: (a, b) => linearScale(points.map((each) => each.x), a, b) },
    y: { label: "", scale: (a, b) => stepScale(timed.map(({ column }) => fitted(column.candidate || column.name)), a, b) },
    points,
    textOf: ({ lane, number, x }) => [
      timed[lane].column.name,
      `sample ${number} of ${timed[lane].samples.length}: ${formatted(x)} us`,
    ],
    lines,
  });
}

function seriesOf(section, candidate) {
  return Math.max(0, section.candidates.indexOf(candidate));
}

function fitted(name) {
  return name.length > 9 ? `${name.slice(0, 8)}…` : name;
}

function quantile(samples, share) {
  const ordered = [...samples].sort((a, b) => a - b);
  const place = share * (ordered.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, ordered.length - 1);
  return ordered[low] + (ordered[high] - ordered[low]) * (place - low);
}
