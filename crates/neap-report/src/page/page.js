// The page of one recording: what is drawn where. Reads the data that the page holds; says in <html data-ready> when all is drawn.
"use strict";
const { summary, series: over } = JSON.parse(document.getElementById("data").textContent);
const at = id => document.getElementById(id);

at("title").textContent = summary.process.command.join(" ");
at("subtitle").textContent = `process ${summary.process.id}, ${new Date(summary.process.began_unix_ns / 1e6).toLocaleString()}, ran ${duration(summary.process.length_ns)}` +
  (summary.process.ended_ns === null ? " and did not end in order" : "") + `; Neap ${summary.process.version}, watch ${summary.process.watch}`;
for (const problem of summary.problems) at("problems").appendChild(Object.assign(document.createElement("li"), { textContent: problem }));

const figures = [
  ["objects requested", count(summary.requested.objects)], ["requested", bytes(summary.requested.bytes)],
  ["wasted", `${bytes(summary.allocated.wasted)} (${(100 * summary.allocated.wasted / Math.max(1, summary.allocated.allocated)).toFixed(1)} %)`],
  ["scanned", bytes(summary.requested.scanned.bytes)], ["not scanned", bytes(summary.requested.not_scanned.bytes)],
  ["different sizes", count(summary.requested.different_sizes)], ["cycles", count(summary.cycles) + (summary.is_cut ? ", and one that did not end" : "")],
  ["longest stop", duration(summary.stops.max_ns)], ["99 of 100 stops at most", duration(summary.stops.p99_ns)],
  ["most memory in use", bytes(summary.statistics.peak_bytes)],
];
for (const [name, value] of figures) {
  const box = at("figures").appendChild(document.createElement("div"));
  box.append(Object.assign(document.createElement("b"), { textContent: value }), Object.assign(document.createElement("span"), { textContent: name }));
}
at("figures").dataset.marks = figures.length;

const costs = [["Neap", summary.allocated], ["powers of two", summary.powers_of_two.conservative], ["with type pointers", summary.powers_of_two.with_type_pointers]];
bars(at("totals"), costs.map(([label, cost]) => ({ label, parts: [cost.requested, cost.wasted], note: count(cost.objects) + " objects" })), ["requested", "wasted"], bytes);

// The three plots by bin, by the seed's bins or by Neap's own cells.
function drawBins(which) {
  const rows = which === "cells" ? summary.classes : summary.requested.bins;
  const label = row => { const bin = row.bin ?? row.cell; return bin === "pages" ? (which === "cells" ? "large" : "pages") : "≤ " + count(bin); };
  const note = row => `${count(row.objects)} objects, ${bytes(row.bytes)} requested, ${bytes(row.wasted)} wasted`;
  const draw = (id, value, name, show) => bars(at(id), rows.map(row => ({ label: label(row), parts: [value(row)], note: note(row) })), [name], show);
  draw("bin-objects", row => row.objects, "objects", short);
  draw("bin-requested", row => row.bytes, "requested", bytes);
  draw("bin-wasted", row => row.wasted, "wasted", bytes);
}
function choice(place, name, options, change) {
  options.forEach(([value, text], index) => {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "radio", name, value, checked: index === 0 });
    input.onchange = () => change(value);
    label.append(input, " " + text);
    place.appendChild(label);
  });
  change(options[0][0]);
}
choice(at("bin-controls"), "bins", [["bins", "powers of two"], ["cells", "Neap's cells"]], drawBins);

const KINDS = [["last_stop", "only or last stop"], ["first_stop", "first stop"], ["short_stop", "short stop"], ["thread_stop", "single thread"], ["copy_stop", "for a snapshot of the heap"]];
const shown = over.stops.length, told = summary.stops.count;
document.getElementById("stops-drawn").textContent = shown === told ? "Each dot is a stop." : `Each dot is a stop; of ${count(told)} the page has ${count(shown)}, of neighbours the longest.`;
const dots = KINDS.map(([kind, name]) => ({ name, points: over.stops.filter(stop => stop[2] === kind).map(stop => [stop[0], stop[1], stop[3] ? `cycle ${stop[3]}` : "between cycles"]) }));
series(at("stops"), dots.filter(line => line.points.length), { dots: true, log: true, show: duration, none: "there was no stop" });

const line = (name, key) => ({ name, points: over.cycles.filter(cycle => cycle[key] !== undefined).map(cycle => [cycle.ended_ns, cycle[key], "cycle " + cycle.number]) });
const drawMemory = which => series(at("memory"),
  which === "size" ? [line("committed", "committed_bytes"), line("live", "live_bytes"), line("spare", "spare_bytes"), line("fragmentation", "fragmentation_bytes")]
    : [line("allocated before it", "allocated_bytes"), line("until the next", "next_bytes")],
  { show: bytes, none: "there was no cycle" });
choice(at("memory-controls"), "memory", [["size", "size"], ["growth", "allocation"]], drawMemory);

series(at("requests"), [{ name: "bytes requested so far", points: over.moments.map(([time, objects, size]) => [time, size, short(objects) + " objects"]) }], { show: bytes, height: 180 });

function drawMap(index) {
  const map = over.maps[index], canvas = at("map"), context = canvas.getContext("2d");
  const columns = 64, rows = Math.max(1, Math.ceil(map.filled.length / columns));
  canvas.width = columns * 8;
  canvas.height = rows * 8;
  const style = getComputedStyle(document.documentElement);
  map.filled.forEach((filled, cell) => {
    context.fillStyle = style.getPropertyValue("--line");
    context.globalAlpha = 0.5;
    const [x, y] = [cell % columns * 8, Math.floor(cell / columns) * 8];
    context.fillRect(x, y, 7, 7);
    context.fillStyle = style.getPropertyValue("--a");
    context.globalAlpha = filled ? 0.15 + filled / 300 : 0;
    context.fillRect(x, y, 7, 7);
  });
  canvas.dataset.marks = map.filled.length;
  canvas.setAttribute("aria-label", `Heap map after cycle ${map.cycle}: ${count(map.filled.filter(filled => filled).length)} of ${count(map.filled.length)} stretches have something live`);
  at("map-label").textContent = `after cycle ${map.cycle}; a square is ${bytes(map.stretch_bytes)}`;
  canvas.onmousemove = event => {
    const box = canvas.getBoundingClientRect();
    const cell = Math.floor((event.clientY - box.top) / box.height * rows) * columns + Math.floor((event.clientX - box.left) / box.width * columns);
    if (cell in map.filled) showTip(event, `${bytes(cell * map.stretch_bytes)} from the start: ${(map.filled[cell] / 2.55).toFixed(0)} % live`);
  };
  canvas.onmouseleave = () => { tip.hidden = true; };
}
const slider = at("map-cycle");
if (over.maps.length) {
  slider.max = over.maps.length - 1;
  slider.value = slider.max;
  slider.oninput = () => drawMap(Number(slider.value));
  drawMap(over.maps.length - 1);
} else {
  slider.hidden = at("map").hidden = true;
  at("map-label").textContent = "no cycle's heap was looked at";
}

const live = over.census.map(row => ({ label: `${row.cell === null ? "large" : count(row.cell)} ${row.kind}`, parts: [row.live_bytes, row.block_bytes - row.live_bytes], note: `${count(row.live_objects)} of ${count(row.cells)} cells` }));
live.sort((a, b) => b.parts[0] + b.parts[1] - a.parts[0] - a.parts[1]);
bars(at("census"), live.slice(0, 24), ["live", "free in the same blocks"], bytes);

const shape = row => row.shape === null ? "" : row.shape === "function" ? "a function" : row.shape.prefix_bytes >= 2 ** 64 ? "all words" : row.shape.prefix_bytes !== undefined ? `first ${row.shape.prefix_bytes} bytes` : `${row.shape.pointer_words} of ${row.shape.element_words} words`;
if (summary.layouts.length) {
  table(at("layouts"), [{ name: "layout", value: row => row.name || row.number }, { name: "bytes", value: row => row.bytes, show: bytes }, { name: "objects", value: row => row.objects, show: count },
    { name: "scanned", value: shape }, { name: "never scanned", value: row => row.not_scanned_bytes, show: bytes }], summary.layouts);
} else {
  at("layout-section").remove();
}
if (summary.threads.length > 1) {
  table(at("threads"), [{ name: "thread", value: row => `${row.name} (${row.id})` }, { name: "requested", value: row => row.requested, show: bytes }, { name: "objects", value: row => row.objects, show: count },
    { name: "allocated", value: row => row.allocated, show: bytes }], summary.threads);
} else {
  at("thread-section").remove();
}
if (summary.sites !== null) {
  at("site-note").textContent = `Estimated from ${count(summary.sites.reduce((sum, site) => sum + site.samples, 0))} samples, one in ${bytes(summary.sample_bytes)}. Callers are above whom they call; click a function to look closer, the topmost to go back.`;
  choice(at("site-controls"), "sites", [["allocated", "bytes allocated"], ["live", "bytes still there at the end"]], which => flame(at("flame"), summary.sites, which));
  table(at("sites"), [{ name: "site", value: site => site.frames[0] }, { name: "allocated", value: site => site.allocated.bytes, show: bytes }, { name: "objects", value: site => site.allocated.objects, show: count },
    { name: "live", value: site => site.live.bytes, show: bytes }, { name: "called by", value: site => site.frames.slice(1, 4).join(" ← ") }], summary.sites);
} else {
  at("site-section").remove();
}
document.documentElement.dataset.ready = document.querySelectorAll("[data-marks]").length;
