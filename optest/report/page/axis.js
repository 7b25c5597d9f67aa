// A quantity over the argument that the sweep goes along, by candidate.

const QUANTITIES = ["us", "TFLOPS", "TB/s"];
const MOST_LINES = 60;
const MOST_GROUPS = 2000;

// Arguments with several numbers, those with most first.
function axesOf(section) {
  const counted = section.columns
    .filter((each) => each.role === "argument" && each.numbers)
    .map((each) => [each, new Set(each.numbers.filter((value) => value > 0)).size])
    .filter(([, count]) => count > 1);
  return counted.sort((a, b) => b[1] - a[1]).map(([each]) => each);
}

function overAxis(view, argument, quantity) {
  const { section } = view;
  const title = `${quantity} over ${argument.name}`;
  const points = [];
  const lines = new Map();
  const sets = setsOf(section, argument);
  section.candidates.forEach((candidate, series) => {
    const column = columnOf(section, candidate, quantity);
    if (!column || !column.numbers) return;
    for (const row of view.rows) {
      const x = valueOf(argument, row);
      const y = valueOf(column, row);
      if (!isRate(x) || !isRate(y)) continue;
      points.push({ series, row, x, y });
      if (lines.size > MOST_GROUPS) continue;
      const line = sets[row] * section.candidates.length + series;
      if (!lines.has(line)) lines.set(line, { series, points: [] });
      lines.get(line).points.push([x, y]);
    }
  });
  if (points.length === 0) return empty(title, "No row has both.");
  const several = [...lines.values()].filter((each) => each.points.length > 1);
  const crowded = lines.size > MOST_GROUPS || several.length > MOST_LINES;
  const drawn = crowded ? [] : several;
  drawn.forEach((each) => each.points.sort((a, b) => a[0] - b[0]));
  const levels = levelsOf(view, quantity);
  return plot({
    title,
    note: crowded ? "points alone: filter the rows to see lines" : "a line for each set of the other arguments",
    names: section.candidates.map(nameOf),
    x: { label: argument.name, scale: (a, b) => logScale(points.map((each) => each.x), a, b) },
    y: {
      label: quantity,
      scale: (a, b) => logScale([...points.map((each) => each.y), ...levels.map((each) => each.value)], a, b),
    },
    points,
    textOf: (point) => pointText(section, point),
    lines: drawn,
    rules: levels.map((each) => flat(each.text, each.value)),
    pick: view.pick,
  });
}

const knownSets = new Map();

// By row, the number of its set of arguments besides the one on the axis, its run and its card.
function setsOf(section, argument) {
  if (knownSets.has(argument)) return knownSets.get(argument);
  const others = section.columns
    .filter((each) => each !== argument && (each.role === "argument" || each.name === "run" || each.name === "gfx"))
    .map((each) => each.numbers || each.codes);
  const numbers = new Map();
  const sets = Array.from({ length: section.rows }, (_, row) => {
    const key = others.map((each) => each[row]).join("|");
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  });
  knownSets.set(argument, sets);
  return sets;
}

// The ceilings that a rate is held against; of the one card alone, lest they be mistaken.
function levelsOf(view, quantity) {
  const cards = view.section.cards.words;
  const peaks = cards.length === 1 ? peaksOf(cards[0]) : undefined;
  if (!peaks || quantity === "us") return [];
  const wanted = quantity === "TB/s" ? [["memory", ["read", "copy"]]] : view.section.dtypes.map((name) => [name, ["matrix"]]);
  return wanted
    .map(([name, kinds]) => ({ name, value: best(peaks, kinds, name) }))
    .filter((each) => each.value !== null)
    .map((each) => ({ ...each, text: `${each.name} ${formatted(each.value)} ${quantity}` }));
}
