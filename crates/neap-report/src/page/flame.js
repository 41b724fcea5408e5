// Sites as a flame graph: a box for each function, as wide as what was allocated in it and in what it called, below the box of its caller.
// Clicking a box makes it the whole width, clicking the topmost goes back. Called by page.js, after plot.js.
"use strict";

// The tree of all stacks, by function, whatever the line: { name, value, children by name }; only frames that lead to something.
function callTree(sites, which) {
  const root = { name: "all", value: 0, children: new Map(), parent: null };
  for (const site of sites) {
    const value = site[which].bytes;
    if (!value) continue;
    let node = root;
    node.value += value;
    for (const frame of [...site.frames].reverse()) {
      const name = frame.replace(/ \([^()]*:\d+\)$/, "");
      if (!node.children.has(name)) node.children.set(name, { name, value: 0, children: new Map(), parent: node });
      node = node.children.get(name);
      node.value += value;
    }
  }
  return root;
}

function flame(place, sites, which) {
  const root = callTree(sites, which);
  if (!root.value) return empty(place, "nothing was sampled");
  const line = 19, narrowest = 1.5;
  const draw = top => {
    keep(place, () => draw(top));
    const width = widthOf(place);
    const svg = picture(place, width, 1, `${top.name}, ${bytes(top.value)}, and what it called; the table below has the sites`);
    let marks = 0, deepest = 0;
    const box = (node, left, wide, depth) => {
      if (wide < narrowest) return;
      deepest = Math.max(deepest, depth);
      marks++;
      const group = make(svg, "g", { class: "frame" });
      const shade = [...node.name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 997, 7);
      make(group, "rect", { x: left, y: depth * line, width: Math.max(wide - 0.5, 0.5), height: line - 1, fill: `hsl(${18 + shade % 35} 75% ${62 + shade % 12}%)` });
      const room = Math.floor((wide - 6) / 6.2);
      if (room > 2) make(group, "text", { x: left + 3, y: depth * line + 13, class: "in-frame" }, node.name.length > room ? node.name.slice(0, room - 1) + "…" : node.name);
      withTip(group, `${node.name}\n${bytes(node.value)}, ${(100 * node.value / root.value).toFixed(1)} %`);
      group.addEventListener("click", () => { tip.hidden = true; draw(node === top ? root : node); });
      for (const child of [...node.children.values()].sort((a, b) => b.value - a.value)) {
        box(child, left, child.value / top.value * width, depth + 1);
        left += child.value / top.value * width;
      }
    };
    box(top, 0, width, 0);
    svg.setAttribute("viewBox", `0 0 ${width} ${(deepest + 1) * line}`);
    place.replaceChildren(svg);
    place.dataset.marks = marks;
  };
  draw(root);
}
