// Plots as SVG, with nothing but the browser: bars and series with axes, a tip under the pointer, zooming by dragging.
// Each function draws into an element and puts how many marks it drew into the element's data-marks. Called by page.js; figures and
// ticks are axis.js's.
"use strict";
const NAMESPACE = "http" + "://www.w3.org/2000/svg";
const COLOURS = ["var(--a)", "var(--b)", "var(--c)", "var(--d)", "var(--e)"];

function make(parent, name, attributes, text) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.hidden = false;
  tip.textContent = text;
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.left = left + "px";
  tip.style.top = event.clientY + 14 + "px";
}
function withTip(element, text) {
  element.addEventListener("mousemove", event => showTip(event, text));
  element.addEventListener("mouseleave", () => { tip.hidden = true; });
}

function empty(place, text) {
  place.replaceChildren(Object.assign(document.createElement("p"), { className: "empty", textContent: text }));
  place.dataset.marks = 0;
}

// How wide a plot is drawn: as it is shown, so that its text keeps its size.
const widthOf = place => Math.max(240, Math.floor(place.clientWidth || 900));

// A picture of its own with a name for who does not see it; what it shows follows as `about`.
function picture(place, width, height, about) {
  const svg = document.createElementNS(NAMESPACE, "svg");
  const title = place.closest("section")?.querySelector("h2")?.textContent || "plot";
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title}: ${about}`);
  return svg;
}

// Plots are drawn anew when they get more or less room.
const drawn = new Map();
function keep(place, draw) { drawn.set(place, { draw, width: widthOf(place) }); }
addEventListener("resize", () => {
  for (const [place, last] of drawn) if (place.isConnected && widthOf(place) !== last.width) last.draw();
});

// Names of colours, in as many lines as they need; gives the height of these.
function legend(svg, names, left, width) {
  let x = left, y = 4;
  names.forEach((name, index) => {
    const wide = 34 + name.length * 6.4;
    if (x > left && x + wide > width) { x = left; y += 16; }
    make(svg, "rect", { x, y, width: 10, height: 10, fill: COLOURS[index % COLOURS.length] });
    make(svg, "text", { x: x + 14, y: y + 9 }, name);
    x += wide;
  });
  return y + 20;
}
// The height that `legend` will take.
function legendHeight(names, left, width) {
  let x = left, y = 24;
  for (const name of names) {
    const wide = 34 + name.length * 6.4;
    if (x > left && x + wide > width) { x = left; y += 16; }
    x += wide;
  }
  return y;
}

// Horizontal bars: rows of { label, parts: [value…] }, parts beside each other.
function bars(place, rows, names, show) {
  if (!rows.length) return empty(place, "nothing was recorded");
  keep(place, () => bars(place, rows, names, show));
  const width = widthOf(place), left = 110, line = 24, top = names.length > 1 ? legendHeight(names, left, width) : 4;
  const height = top + rows.length * line + 22;
  const most = Math.max(1, ...rows.map(row => row.parts.reduce((sum, part) => sum + part, 0)));
  const about = rows.map(row => `${row.label} ${row.parts.map((part, at) => `${names[at]} ${show(part)}`).join(", ")}`);
  const svg = picture(place, width, height, about.join("; "));
  const scale = (width - left - 24) / most;
  let marks = 0;
  for (const { value, label } of ticksAcross(0, most, show, width - left)) {
    const x = left + value * scale;
    make(svg, "line", { class: "grid", x1: x, x2: x, y1: top, y2: height - 20 });
    make(svg, "text", { class: "tick-x", x, y: height - 6, "text-anchor": "middle" }, label);
  }
  if (names.length > 1) legend(svg, names, left, width);
  rows.forEach((row, index) => {
    const y = top + index * line;
    make(svg, "text", { x: left - 6, y: y + 15, "text-anchor": "end" }, row.label);
    let x = left;
    row.parts.forEach((part, number) => {
      const rect = make(svg, "rect", { x, y: y + 3, width: Math.max(part > 0 ? 0.5 : 0, part * scale), height: line - 7, fill: COLOURS[number % COLOURS.length] });
      withTip(rect, `${row.label}\n${names[number]}: ${show(part)}${row.note ? "\n" + row.note : ""}`);
      x += part * scale;
      marks++;
    });
  });
  place.replaceChildren(svg);
  place.dataset.marks = marks;
}

// Series over time: [{ name, points: [[time, value, note]…] }]; options: log, dots, show, height.
function series(place, lines, options) {
  const all = lines.flatMap(line => line.points);
  if (!all.length) return empty(place, options.none || "nothing was recorded");
  keep(place, () => series(place, lines, options));
  const width = widthOf(place), names = lines.map(line => line.name);
  const full = [0, Math.max(1, ...all.map(point => point[0]))];
  const range = place.range || full;
  const height = options.height || 260, left = 78, top = legendHeight(names, 78, width), bottom = height - 24;
  const seen = all.filter(point => point[0] >= range[0] && point[0] <= range[1] && (!options.log || point[1] > 0));
  const values = (seen.length ? seen : all).map(point => point[1]);
  let high = values.reduce((most, value) => Math.max(most, value), 1) * 1.05, low = 0;
  if (options.log) low = Math.max(1, values.reduce((least, value) => Math.min(least, value), high)) / 1.2;
  const x = time => left + (time - range[0]) / (range[1] - range[0]) * (width - left - 12);
  const part = value => options.log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : value / high;
  const y = value => bottom - part(value) * (bottom - top);
  const about = lines.map(line => `${line.name}, ${count(line.points.length)} points up to ${options.show(line.points.reduce((most, point) => Math.max(most, point[1]), 0))}`);
  const svg = picture(place, width, height, about.join("; "));
  for (const { value, label } of ticks(low, high, options.show, { log: options.log })) {
    make(svg, "line", { class: "grid", x1: left, x2: width - 12, y1: y(value), y2: y(value) });
    make(svg, "text", { class: "tick-y", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, label);
  }
  for (const { value, label } of ticksAcross(range[0], range[1], duration, width - left - 12))
    make(svg, "text", { class: "tick-x", x: x(value), y: height - 6, "text-anchor": "middle" }, label);
  legend(svg, names, left, width);
  let marks = 0;
  lines.forEach((line, index) => {
    const points = line.points.filter(point => point[0] >= range[0] && point[0] <= range[1]);
    marks += points.length;
    if (options.dots) {
      for (const point of points)
        make(svg, "circle", { cx: x(point[0]), cy: y(point[1]), r: 2.5, fill: COLOURS[index % COLOURS.length], "fill-opacity": 0.7 });
    } else {
      const path = points.map((point, at) => (at ? "L" : "M") + x(point[0]).toFixed(1) + " " + y(point[1]).toFixed(1)).join("");
      make(svg, "path", { d: path, fill: "none", stroke: COLOURS[index % COLOURS.length], "stroke-width": 1.5 });
    }
  });
  const position = event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * width;
    return range[0] + (Math.min(Math.max(at, left), width - 12) - left) / (width - left - 12) * (range[1] - range[0]);
  };
  const cursor = make(svg, "line", { class: "grid", y1: top, y2: bottom, visibility: "hidden" });
  const shade = make(svg, "rect", { y: top, height: bottom - top, width: 0, fill: "var(--a)", "fill-opacity": 0.15 });
  let from = null;
  svg.addEventListener("mousedown", event => { from = position(event); event.preventDefault(); });
  svg.addEventListener("mousemove", event => {
    const time = position(event);
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", x(time));
    cursor.setAttribute("x2", x(time));
    if (from !== null) {
      shade.setAttribute("x", Math.min(x(from), x(time)));
      shade.setAttribute("width", Math.abs(x(time) - x(from)));
    }
    const texts = [duration(time)];
    for (const line of lines) {
      let nearest = null;
      for (const point of line.points)
        if (!nearest || Math.abs(point[0] - time) < Math.abs(nearest[0] - time)) nearest = point;
      if (nearest) texts.push(`${line.name}: ${options.show(nearest[1])}${nearest[2] ? " (" + nearest[2] + ")" : ""}`);
    }
    showTip(event, texts.join("\n"));
  });
  svg.addEventListener("mouseleave", () => { tip.hidden = true; from = null; shade.setAttribute("width", 0); });
  svg.addEventListener("mouseup", event => {
    const to = position(event);
    if (from !== null && Math.abs(x(to) - x(from)) > 8) {
      place.range = [Math.min(from, to), Math.max(from, to)];
      series(place, lines, options);
    }
    from = null;
  });
  svg.addEventListener("dblclick", () => { place.range = null; series(place, lines, options); });
  place.replaceChildren(svg);
  place.dataset.marks = marks;
}

// A table that sorts by the column whose name is clicked: columns of { name, value, show }.
function table(place, columns, rows) {
  let by = 1, down = true;
  const draw = () => {
    const sorted = [...rows].sort((a, b) => {
      const [left, right] = [columns[by].value(a), columns[by].value(b)];
      return (left < right ? -1 : left > right ? 1 : 0) * (down ? -1 : 1);
    });
    const body = document.createElement("table");
    const head = body.createTHead().insertRow();
    columns.forEach((column, index) => {
      const cell = document.createElement("th");
      cell.textContent = column.name + (index === by ? (down ? " ▾" : " ▴") : "");
      cell.scope = "col";
      cell.tabIndex = 0;
      if (index === by) cell.ariaSort = down ? "descending" : "ascending";
      cell.onclick = () => { down = index === by ? !down : true; by = index; draw(); };
      cell.onkeydown = event => { if (event.key === "Enter") cell.onclick(); };
      head.appendChild(cell);
    });
    for (const row of sorted.slice(0, 500)) {
      const line = body.insertRow();
      for (const column of columns) line.insertCell().textContent = (column.show || String)(column.value(row));
    }
    // Wide tables scroll by themselves, also by the keyboard.
    place.classList.add("table");
    place.tabIndex = 0;
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", place.closest("section")?.querySelector("h2")?.textContent || "table");
    place.replaceChildren(body);
    place.dataset.marks = rows.length;
  };
  draw();
}
