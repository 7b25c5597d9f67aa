// Rate over operations a byte, under what the card was measured to reach.

const TERA = 1e12;

function rooflines(view) {
  const cards = view.section.cards.words;
  const pictures = cards.map((card) => roofline(view, card)).filter((each) => each !== null);
  return pictures.length > 0 ? pictures : [empty("Roofline", "No candidate gives both TFLOPS and TB/s.")];
}

function roofline(view, card) {
  const { section } = view;
  const points = [];
  section.candidates.forEach((candidate, series) => {
    const flops = columnOf(section, candidate, "TFLOPS");
    const moved = columnOf(section, candidate, "TB/s");
    if (!flops || !moved) return;
    for (const row of view.rows) {
      const rate = valueOf(flops, row);
      const bytes = valueOf(moved, row);
      if (wordOf(section.cards, row) !== card || !isRate(rate) || !isRate(bytes)) continue;
      points.push({ series, row, x: rate / bytes, y: rate });
    }
  });
  if (points.length === 0) return null;
  const peaks = peaksOf(card);
  const roofs = peaks ? roofsOf(peaks, section.dtypes) : [];
  const heights = roofs.map((roof) => roof.rate).filter((rate) => rate !== undefined);
  return plot({
    title: `Roofline, ${card}`,
    note: peaks
      ? `ceilings measured ${moment(peaks.measured)}${elsewhere(peaks)}`
      : "no ceilings: none were measured on this card (optest peaks)",
    names: section.candidates.map(nameOf),
    x: { label: "operations a byte", scale: (a, b) => logScale(points.map((each) => each.x), a, b) },
    y: {
      label: "TFLOPS",
      scale: (a, b) => logScale([...points.map((each) => each.y), ...heights], a, b),
    },
    points,
    textOf: (point) => pointText(section, point),
    rules: roofs.map((roof) => roof.rule),
    pick: view.pick,
  });
}

// Where they were measured, if on another machine than the runs.
function elsewhere({ host }) {
  return page.runs.some((run) => run.host === host) ? "" : ` on ${host}`;
}

function isRate(value) {
  return value !== null && value > 0 && value < Infinity;
}

function pointText(section, { series, row }) {
  const candidate = section.candidates[series];
  const values = section.columns
    .filter((each) => each.role === "measure" && each.candidate === candidate && each.numbers)
    .map((each) => [each.quantity, shown(each, row)])
    .filter(([, text]) => text !== "")
    .map(([quantity, text]) => (quantity === "us" ? `${text} us` : `${quantity} ${text}`));
  return [section.ids[row], `${nameOf(candidate)}: ${values.join(", ")}`];
}

function best(peaks, kinds, name) {
  const found = peaks.ceilings.filter((each) => kinds.includes(each.kind) && each.name === name);
  return found.length === 0 ? null : Math.max(...found.map((each) => each.value)) / TERA;
}

// The slope of each memory level and the flat roof of each dtype, in tera.
function roofsOf(peaks, dtypes) {
  const levels = [...new Set(peaks.ceilings.filter((each) => each.kind !== "matrix" && each.kind !== "launch").map((each) => each.name))];
  const slopes = levels
    .map((name) => ({ name, bandwidth: best(peaks, ["read", "copy"], name) }))
    .filter((each) => each.bandwidth !== null);
  const flats = dtypes
    .map((name) => ({ name, rate: best(peaks, ["matrix"], name) }))
    .filter((each) => each.rate !== null);
  const top = flats.length > 0 ? Math.max(...flats.map((each) => each.rate)) : Infinity;
  return [
    ...slopes.map(({ name, bandwidth }) => ({ rule: slope(name, bandwidth, top) })),
    ...flats.map(({ name, rate }) => ({ rate, rule: flat(`${name} ${formatted(rate)} TFLOPS`, rate) })),
  ];
}

function flat(text, height) {
  return (xs) => ({ points: [[xs.low, height], [xs.high, height]], text });
}

function slope(name, bandwidth, top) {
  return (xs, ys) => {
    const to = Math.min(xs.high, Math.min(top, ys.high) / bandwidth);
    if (to <= xs.low) return null;
    const middle = Math.sqrt(xs.low * to);
    return {
      points: [[xs.low, xs.low * bandwidth], [to, to * bandwidth]],
      at: [middle, middle * bandwidth],
      text: `${name} ${formatted(bandwidth)} TB/s`,
    };
  };
}
