// From values to places on a picture, and the ticks that belong to them.

function bounds(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function logScale(values, from, to) {
  let [low, high] = bounds(values);
  low = Math.log10(low);
  high = Math.log10(high);
  const spare = Math.max((high - low) * 0.06, 0.08);
  low -= spare;
  high += spare;
  return {
    at: (value) => from + ((Math.log10(value) - low) / (high - low)) * (to - from),
    low: 10 ** low,
    high: 10 ** high,
    ticks: logTicks(low, high),
  };
}

function logTicks(low, high) {
  const steps = high - low > 3 ? [1] : [1, 2, 5];
  const every = Math.max(1, Math.ceil((high - low) / 7));
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
    if (power % every !== 0) continue;
    for (const step of steps) {
      const value = step * 10 ** power;
      if (Math.log10(value) >= low && Math.log10(value) <= high) ticks.push(value);
    }
  }
  return ticks.map((value) => ({ value, text: tickText(Number(value.toPrecision(3))) }));
}

// What fits beside an axis.
function tickText(value) {
  const size = Math.abs(value);
  return size >= 1e5 || (size > 0 && size < 1e-4) ? value.toExponential().replace("e+", "e") : formatted(value);
}

function linearScale(values, from, to) {
  let [low, high] = bounds(values);
  const spare = (high - low || Math.abs(high) || 1) * 0.06;
  low -= spare;
  high += spare;
  return {
    at: (value) => from + ((value - low) / (high - low)) * (to - from),
    low,
    high,
    ticks: linearTicks(low, high),
  };
}

function linearTicks(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high; n += 1) {
    const value = Number((n * step).toPrecision(12));
    ticks.push({ value, text: tickText(value) });
  }
  return ticks;
}

// Places for whole numbers from 0, whose names are shown as far as they fit.
function stepScale(names, from, to) {
  const count = names.length;
  const width = (to - from) / count;
  const every = Math.max(1, Math.ceil(64 / Math.abs(width)));
  return {
    at: (value) => from + (value + 0.5) * width,
    low: -0.5,
    high: count - 0.5,
    ticks: names
      .map((text, value) => ({ value, text }))
      .filter((each) => every === 1 || each.value % every === 0),
  };
}
