// The filter: words that the case's id or status must hold, and conditions on columns.

const CONDITION = /^(.+?)(<=|>=|!=|=|<|>)(.*)$/;

// A function of a row. "m=16 us<20 bf16": column m is 16, some column us is below 20, and bf16 stands
// in the id, the status or the reason. A column's blanks are written as _ ("cpp_us<20").
function predicate(section, text) {
  const tests = text
    .split(/\s+/)
    .filter((word) => word !== "")
    .map((word) => condition(section, word) || contains(section, word.toLowerCase()));
  return (row) => tests.every((test) => test(row));
}

function contains(section, word) {
  const state = stateOf(section);
  return (row) =>
    section.ids[row].toLowerCase().includes(word) ||
    valueOf(state, row).includes(word) ||
    wordOf(section.reasons, row).toLowerCase().includes(word);
}

function condition(section, word) {
  const found = CONDITION.exec(word);
  if (found === null) return null;
  const [, name, sign, wanted] = found;
  const wished = name.toLowerCase();
  const columns = section.columns.filter(
    (each) => each.name.toLowerCase().replaceAll(" ", "_") === wished || each.quantity.toLowerCase() === wished,
  );
  if (columns.length === 0) return null;
  return (row) => columns.some((each) => holds(valueOf(each, row), sign, wanted));
}

function holds(value, sign, wanted) {
  if (value === null || wanted === "") return false;
  const number = Number(wanted);
  const both = typeof value === "number" && !Number.isNaN(number);
  const left = both ? value : String(value).toLowerCase();
  const right = both ? number : wanted.toLowerCase();
  switch (sign) {
    case "=":
      return left === right;
    case "!=":
      return left !== right;
    case "<":
      return both && left < right;
    case ">":
      return both && left > right;
    case "<=":
      return both && left <= right;
    default:
      return both && left >= right;
  }
}
