// The table of a section: sorted by a column's button, filtered, a part of its rows at a time.

const ROWS_SHOWN = 50;
const LONG = 60; // letters of a text from which it is broken into lines
const byText = new Intl.Collator("en", { numeric: true }).compare;
const STATES = { none: "ascending", ascending: "descending", descending: "none" };

class Table {
  // choice: label, words, and fits(row, word) of a list beside the filter. changed(rows): other rows
  // pass. picked(row): a case was selected.
  constructor(section, choice, changed, picked) {
    this.section = section;
    this.choice = choice;
    this.changed = changed;
    this.picked = picked;
    this.first = 0;
    this.sorted = null;
    this.direction = "none";
    this.selected = -1;
    this.all = Array.from({ length: section.rows }, (_, row) => row);
    this.rows = this.all;
    this.body = el("tbody");
    this.count = el("output", { class: "count", "aria-live": "polite" });
    this.heads = section.columns.map((column) => this.head(column));
    this.node = el("div", { class: "tablepart" }, this.controls(), this.frame(), this.pager());
    this.draw();
  }

  controls() {
    const filter = freshId("filter");
    const status = freshId("status");
    this.filter = el("input", {
      id: filter,
      type: "search",
      placeholder: this.choice.example,
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.narrow(),
    });
    this.status = el(
      "select",
      { id: status, onchange: () => this.narrow() },
      ["all", ...this.choice.words].map((each) => el("option", { value: each }, each)),
    );
    return el(
      "div",
      { class: "controls" },
      el("label", { for: filter }, "Filter "),
      this.filter,
      el("label", { for: status }, `${this.choice.label} `),
      this.status,
      this.count,
    );
  }

  head(column) {
    const arrow = el("span", { class: "arrow", "aria-hidden": "true" });
    const button = el("button", { type: "button", onclick: () => this.sort(column) }, column.name, arrow);
    return el("th", { scope: "col", "aria-sort": "none", class: column.numbers ? "number" : null }, button);
  }

  frame() {
    const name = this.section.function || this.section.file;
    return el(
      "div",
      { class: "scroll", role: "region", tabindex: 0, "aria-label": `Table of ${name}` },
      el(
        "table",
        {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "case"), this.heads)),
        this.body,
      ),
    );
  }

  pager() {
    const step = (text, to) =>
      el("button", { type: "button", onclick: () => this.goTo(to()) }, text);
    this.before = [step("First", () => 0), step("Previous", () => this.first - ROWS_SHOWN)];
    this.after = [
      step("Next", () => this.first + ROWS_SHOWN),
      step("Last", () => Math.floor((this.rows.length - 1) / ROWS_SHOWN) * ROWS_SHOWN),
    ];
    this.turns = el("div", { class: "pager" }, this.before, this.after);
    return this.turns;
  }

  goTo(first) {
    this.first = first;
    this.draw();
  }

  narrow() {
    const matches = predicate(this.section, this.filter.value);
    const word = this.status.value;
    this.kept = (row) => (word === "all" || this.choice.fits(row, word)) && matches(row);
    this.arrange();
    this.changed(this.rows);
  }

  sort(column) {
    this.direction = this.sorted === column ? STATES[this.direction] : "ascending";
    this.sorted = this.direction === "none" ? null : column;
    this.section.columns.forEach((each, n) => {
      this.heads[n].setAttribute("aria-sort", each === this.sorted ? this.direction : "none");
    });
    this.arrange();
  }

  arrange() {
    const rows = this.kept ? this.all.filter(this.kept) : [...this.all];
    this.rows = this.sorted ? ordered(rows, this.sorted, this.direction === "descending") : rows;
    this.first = 0;
    this.draw();
  }

  select(row) {
    this.selected = row;
    const at = this.rows.indexOf(row);
    if (at >= 0) this.first = Math.floor(at / ROWS_SHOWN) * ROWS_SHOWN;
    this.draw();
  }

  draw() {
    const last = Math.min(this.first + ROWS_SHOWN, this.rows.length);
    const part = this.rows.slice(this.first, last);
    this.body.replaceChildren(...part.map((row) => this.line(row)));
    const total = this.section.rows.toLocaleString("en");
    const of = this.rows.length === this.section.rows ? total : `${this.rows.length.toLocaleString("en")} of ${total}`;
    this.count.textContent =
      this.rows.length === 0 ? `no row of ${total} fits` : `rows ${(this.first + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${of}`;
    this.turns.hidden = this.rows.length <= ROWS_SHOWN;
    for (const button of this.before) button.disabled = this.first === 0;
    for (const button of this.after) button.disabled = last >= this.rows.length;
  }

  line(row) {
    const { section } = this;
    const chosen = row === this.selected;
    const button = el(
      "button",
      {
        type: "button",
        "aria-pressed": String(chosen),
        title: section.ids[row],
        "aria-label": `Show ${section.ids[row]}`,
        onclick: (event) => this.choose(row, event.currentTarget),
      },
      String(row + 1),
    );
    const cells = section.columns.map((column) =>
      el("td", { class: this.look(column, row) }, shown(column, row)),
    );
    return el("tr", { class: chosen ? "chosen" : null }, el("td", {}, button), cells);
  }

  // Without a new drawing, so that the keyboard stays where it is.
  choose(row, button) {
    for (const line of this.body.children) {
      line.classList.remove("chosen");
      line.querySelector("button").setAttribute("aria-pressed", "false");
    }
    this.selected = row;
    button.setAttribute("aria-pressed", "true");
    button.closest("tr").classList.add("chosen");
    this.picked(row);
  }

  look(column, row) {
    const words = [];
    if (column.numbers) words.push("number");
    else if (column.codes[row] >= 0 && column.words[column.codes[row]].length > LONG) words.push("wide");
    if (column.role === "fact" && column.name === this.section.state && this.choice.bad(row)) words.push("bad");
    if (column.marks && column.marks[row] === "fail") words.push("bad");
    return words.length > 0 ? words.join(" ") : null;
  }
}

// What has no value comes last in both directions; rows that are alike keep their order.
function ordered(rows, column, descending) {
  const sign = descending ? -1 : 1;
  const key = column.numbers ? (row) => asNumber(column.numbers[row]) : textRank(column);
  const keys = new Map(rows.map((row) => [row, key(row)]));
  return rows.sort((a, b) => {
    const left = keys.get(a);
    const right = keys.get(b);
    if (left === null || right === null) return (left === null) - (right === null) || a - b;
    return (left < right ? -sign : left > right ? sign : 0) || a - b;
  });
}

function textRank(column) {
  const order = column.words
    .map((word, code) => [word, code])
    .sort((a, b) => byText(a[0], b[0]));
  const rank = new Map(order.map(([, code], place) => [code, place]));
  return (row) => (column.codes[row] < 0 ? null : rank.get(column.codes[row]));
}
