// A picture: axes, lines, points that say what they are under the pointer and the arrow keys.

const NARROW = 600; // pixels of a window in which a picture is smaller, so that its letters are not
const WIDTH = window.innerWidth < NARROW ? 380 : 560;
const HEIGHT = window.innerWidth < NARROW ? 290 : 340;
const EDGE = { left: 62, right: 16, top: 14, bottom: 46 };
const NEAR = 22; // pixels from which a point is meant
const CELL = 4; // points that fall into one cell of so many pixels are drawn as one

// spec: title, note, names (of the series), x and y (label, scale: a function of two places),
// points [{series, x, y, row}], textOf(point) as lines, lines [{series, points}], rules [scales to {points, text}], pick(row)
function plot(spec) {
  const xs = spec.x.scale(EDGE.left, WIDTH - EDGE.right);
  const ys = spec.y.scale(HEIGHT - EDGE.bottom, EDGE.top);
  const drawn = merged(spec.points, xs, ys);
  const picture = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "plot",
    role: "application",
    tabindex: 0,
    "aria-roledescription": "picture with points",
    "aria-label": `${spec.title}. ${counted(spec.points.length, "point")}. Arrow keys go from point to point${spec.pick ? ", Enter selects the case" : ""}.`,
  });
  const clip = freshId("clip");
  const inside = svg("g", { "clip-path": `url(#${clip})` });
  picture.append(clipPath(clip), axes(xs, ys, spec), inside);
  for (const rule of spec.rules || []) inside.append(...ruled(rule(xs, ys), xs, ys));
  for (const line of spec.lines || []) inside.append(polyline(line, xs, ys));
  for (const [series, places] of bySeries(drawn)) inside.append(marks(series, places, 3.6));
  const ring = svg("circle", { class: "ring", r: 8, visibility: "hidden" });
  picture.append(ring);
  const said = el("output", { class: "said", "aria-live": "polite" });
  const tip = el("div", { class: "tip", hidden: true, role: "tooltip" });
  const box = el("div", { class: "picture" }, picture, tip);
  listen(picture, { drawn, ring, tip, said, textOf: spec.textOf, pick: spec.pick });
  return el(
    "figure",
    { class: "figure" },
    el("figcaption", {}, spec.title, spec.note ? el("small", {}, spec.note) : null),
    box,
    spec.names.length > 0 ? legend(spec.names) : null,
    said,
  );
}

function empty(title, why) {
  return el("figure", { class: "figure" }, el("figcaption", {}, title), el("p", { class: "none" }, why));
}

function clipPath(id) {
  return svg(
    "clipPath",
    { id },
    svg("rect", {
      x: EDGE.left,
      y: EDGE.top - 4,
      width: WIDTH - EDGE.left - EDGE.right,
      height: HEIGHT - EDGE.top - EDGE.bottom + 8,
    }),
  );
}

function axes(xs, ys, spec) {
  const bottom = HEIGHT - EDGE.bottom;
  const group = svg("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of xs.ticks) {
    const x = xs.at(tick.value);
    group.append(
      svg("line", { x1: x, x2: x, y1: EDGE.top, y2: bottom }),
      svg("text", { x, y: bottom + 16, "text-anchor": "middle" }, tick.text),
    );
  }
  for (const tick of ys.ticks) {
    const y = ys.at(tick.value);
    group.append(
      svg("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y, y2: y }),
      svg("text", { x: EDGE.left - 6, y: y + 4, "text-anchor": "end" }, tick.text),
    );
  }
  const middle = (EDGE.top + bottom) / 2;
  group.append(
    svg("text", { x: (EDGE.left + WIDTH) / 2, y: HEIGHT - 8, "text-anchor": "middle", class: "label" }, spec.x.label),
    svg(
      "text",
      { x: 14, y: middle, "text-anchor": "middle", class: "label", transform: `rotate(-90 14 ${middle})` },
      spec.y.label,
    ),
  );
  return group;
}

function placed(points, xs, ys) {
  return points.map(([x, y]) => `${xs.at(x).toFixed(1)},${ys.at(y).toFixed(1)}`).join(" ");
}

function polyline(line, xs, ys) {
  return svg("polyline", { class: `line series-${line.series % 8}`, points: placed(line.points, xs, ys) });
}

// A ceiling, a change: a line with a name where it ends, or at a place of its own.
function ruled(rule, xs, ys) {
  if (rule === null) return [];
  const [x, y] = rule.at || rule.points[rule.points.length - 1];
  return [
    svg("polyline", { class: "rule", points: placed(rule.points, xs, ys) }),
    svg(
      "text",
      { class: "ruletext", x: Math.min(xs.at(x), WIDTH - EDGE.right) - 4, y: ys.at(y) - 5, "text-anchor": "end" },
      rule.text,
    ),
  ];
}

function bySeries(drawn) {
  const found = new Map();
  for (const { point, left, top } of drawn) {
    if (!found.has(point.series)) found.set(point.series, []);
    found.get(point.series).push([left, top]);
  }
  return [...found].sort((a, b) => b[0] - a[0]);
}

function merged(points, xs, ys) {
  const cells = new Map();
  for (const point of points) {
    const left = xs.at(point.x);
    const top = ys.at(point.y);
    const cell = (point.series * 1024 + Math.round(left / CELL)) * 1024 + Math.round(top / CELL);
    const found = cells.get(cell);
    if (found) found.more += 1;
    else cells.set(cell, { point, left, top, more: 0 });
  }
  return [...cells.values()].sort((a, b) => a.left - b.left || a.top - b.top);
}

function listen(picture, view) {
  let at = -1;
  const show = (index) => {
    at = index;
    const each = view.drawn[at];
    const hidden = each === undefined;
    view.tip.hidden = hidden;
    view.ring.setAttribute("visibility", hidden ? "hidden" : "visible");
    if (hidden) return "";
    const more = each.more > 0 ? [`and ${counted(each.more, "other")} here`] : [];
    const lines = [...view.textOf(each.point), ...more];
    view.tip.replaceChildren(...lines.map((line) => el("div", {}, line)));
    view.ring.setAttribute("cx", each.left);
    view.ring.setAttribute("cy", each.top);
    view.tip.style.left = `${(100 * each.left) / WIDTH}%`;
    view.tip.style.top = `${(100 * each.top) / HEIGHT}%`;
    view.tip.classList.toggle("leftward", each.left > WIDTH / 2);
    return lines.join("; ");
  };
  picture.addEventListener("pointermove", (event) => show(nearest(picture, event, view.drawn)));
  picture.addEventListener("pointerleave", () => show(-1));
  picture.addEventListener("blur", () => show(-1));
  const choose = () => {
    const each = view.drawn[at];
    if (each !== undefined && view.pick && each.point.row !== undefined) view.pick(each.point.row);
  };
  picture.addEventListener("click", (event) => {
    show(nearest(picture, event, view.drawn));
    choose();
  });
  picture.addEventListener("keydown", (event) => {
    const last = view.drawn.length - 1;
    const to = {
      ArrowRight: Math.min(at + 1, last),
      ArrowDown: Math.min(at + 1, last),
      ArrowLeft: Math.max(at - 1, 0),
      ArrowUp: Math.max(at - 1, 0),
      Home: 0,
      End: last,
      Escape: -1,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      view.said.textContent = show(to);
    } else if (event.key === "Enter") {
      choose();
    }
  });
}

function nearest(picture, event, drawn) {
  const place = picture.getBoundingClientRect();
  const scale = WIDTH / place.width;
  const left = (event.clientX - place.left) * scale;
  const top = (event.clientY - place.top) * scale;
  let found = -1;
  let least = NEAR * NEAR * scale * scale;
  drawn.forEach((each, index) => {
    const distance = (each.left - left) ** 2 + (each.top - top) ** 2;
    if (distance < least) {
      least = distance;
      found = index;
    }
  });
  return found;
}
