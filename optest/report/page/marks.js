// A candidate is told by its colour and by its shape.

const ANGLES = [
  null, // a circle
  [-135, -45, 45, 135],
  [-90, 30, 150],
  [-90, 0, 90, 180],
  [90, 210, 330],
  [-90, -18, 54, 126, 198],
];

// One path for all marks of a series: thousands of elements would take seconds to lay out.
function marks(series, places, size) {
  const angles = ANGLES[series % ANGLES.length];
  const radius = angles === null ? size : size * 1.3;
  const outline = angles === null ? circle(radius) : polygon(angles, radius);
  const path = places.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}${outline}`).join("");
  return svg("path", { class: `mark series-${series % 8}`, d: path });
}

// Outlines begin and end at the middle of the mark.
function circle(radius) {
  const arc = `a${radius} ${radius} 0 1 0 `;
  return `m${-radius} 0${arc}${2 * radius} 0${arc}${-2 * radius} 0z`;
}

function polygon(angles, radius) {
  const corners = angles.map((degrees) => {
    const angle = (degrees * Math.PI) / 180;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  });
  const steps = corners.map(([x, y], n) => {
    const [left, top] = n === 0 ? [0, 0] : corners[n - 1];
    return `${n === 0 ? "m" : "l"}${(x - left).toFixed(2)} ${(y - top).toFixed(2)}`;
  });
  return `${steps.join("")}z`;
}

function legend(names) {
  return el(
    "ul",
    { class: "legend" },
    names.map((name, series) =>
      el(
        "li",
        {},
        svg(
          "svg",
          { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" },
          marks(series, [[7, 7]], 4.5),
        ),
        name,
      ),
    ),
  );
}
