// What the page is about, and how its values are read and written.

const page = JSON.parse(document.getElementById("data").textContent);
const CHANGES = ["change", "from", "to"]; // of the comparison: ratios of times
const BAD = ["failed", "error", "crashed", "hung"];

// The ceilings of a card; undefined where none were measured.
function peaksOf(card) {
  return Object.hasOwn(page.peaks, card) ? page.peaks[card] : undefined;
}

function asNumber(value) {
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return value;
}

// The cell of a row: a number, a text, or null.
function valueOf(column, row) {
  if (column.numbers) return asNumber(column.numbers[row]);
  const code = column.codes[row];
  return code < 0 ? null : column.words[code];
}

function wordOf(coded, row) {
  const code = coded.codes[row];
  return code < 0 ? "" : coded.words[code];
}

function formatted(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "number") return String(value);
  if (value === Infinity) return "inf";
  if (value === -Infinity) return "-inf";
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(5)));
}

function percent(share) {
  const value = 100 * share;
  return `${value >= 100 ? value.toFixed(0) : value.toPrecision(2)} %`;
}

// What a table shows of a cell.
function shown(column, row) {
  const value = valueOf(column, row);
  if (value === null) return "";
  if (column.quantity === "share of limit") return percent(value);
  if (CHANGES.includes(column.quantity) && column.role === "measure") return moved(value);
  const mark = column.marks ? column.marks[row] : undefined;
  const text = formatted(value);
  return mark === undefined ? text : `${text} ${mark === "fail" ? "FAIL" : mark}`;
}

// A ratio of times as people say it.
function moved(ratio) {
  if (ratio >= 2) return `× ${formatted(Number(ratio.toPrecision(3)))}`;
  const change = 100 * (ratio - 1);
  const size = Math.abs(change);
  return `${change < 0 ? "−" : "+"}${size < 9.95 ? size.toFixed(1) : size.toFixed(0)} %`;
}

// Of two ends in words, the interval; nothing where one is not known.
function between(low, high) {
  return low !== "" && high !== "" ? ` (95 % between ${low} and ${high})` : "";
}

function columnOf(section, candidate, quantity) {
  return section.columns.find(
    (each) => each.role === "measure" && each.candidate === candidate && each.quantity === quantity,
  );
}

// The column that says what became of a row.
function stateOf(section) {
  return section.columns.find((each) => each.role === "fact" && each.name === section.state);
}

function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

function moment(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

function nameOf(candidate) {
  return candidate === "" ? "the case" : candidate;
}
