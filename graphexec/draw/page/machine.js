// The machine: what is taken and where the run is, lit in the drawing.

const drawing = document.querySelector("#drawing svg");
const whole = drawing.viewBox.baseVal;
const full = { x: whole.x, y: whole.y, width: whole.width, height: whole.height };
// By the edge's number, and by the node's name.
const lines = new Map();
const labels = new Map();
const nodes = new Map();
// The widths of lines that were taken once, and most often.
const [LEAST, MOST] = [1.8, 5];

function readDrawing(picture, choose) {
  for (const group of drawing.querySelectorAll("[data-edge]")) {
    const edge = Number(group.dataset.edge);
    (group.classList.contains("edge") ? lines : labels).set(edge, group);
    const { source, outcome, target } = picture.arrows[edge];
    if (choose) press(group, `${source}, ${outcome}, ${target}: to the next time`, () => choose({ edge }), group.classList.contains("edge"));
  }
  for (const group of drawing.querySelectorAll("[data-node]")) {
    const node = group.dataset.node;
    nodes.set(node, group);
    if (choose) press(group, `${node}: to its next visit`, () => choose({ node }), true);
  }
  for (const group of choose ? lines.values() : []) {
    const wide = group.querySelector(".line").cloneNode();
    wide.setAttribute("class", "hit");
    group.append(wide);
  }
  movable();
}

function press(group, label, act, reachable) {
  group.classList.add("pressed");
  if (reachable) {
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "button");
    group.setAttribute("aria-label", label);
  }
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter") act();
  });
}

function edgeOf(moved) {
  return moved ? edges.get(`${moved.node} ${moved.outcome}`) : undefined;
}

function countsUntil(position) {
  const counts = new Map();
  for (const visit of run.visits.slice(0, position)) {
    const edge = edgeOf(visit.moved);
    if (edge !== undefined) counts.set(edge, (counts.get(edge) ?? 0) + 1);
  }
  return counts;
}

function light(position) {
  const counts = countsUntil(position);
  const most = Math.max(1, ...counts.values());
  const visit = visitAt(position);
  const now = edgeOf(visit?.moved);
  for (const [edge, group] of lines) {
    const count = counts.get(edge) ?? 0;
    group.classList.toggle("taken", count > 0);
    group.classList.toggle("now", edge === now);
    const width = edge === now ? MOST : LEAST + (MOST - LEAST) * 0.8 * Math.log(count + 1) / Math.log(most + 1);
    group.querySelector(".line").style.strokeWidth = count ? String(width) : "";
    countAt(labels.get(edge), count, edge === now);
  }
  const end = run.visits.at(-1);
  const here = visit ? visit.node : position > 0 ? end?.moved?.target ?? end?.node : null;
  for (const [node, group] of nodes) group.classList.toggle("current", node === here);
}

function countAt(label, count, now) {
  if (!label) return;
  label.classList.toggle("taken", count > 0);
  label.classList.toggle("now", now);
  const notes = label.querySelector(".notes");
  if (!notes) return;
  notes.removeAttribute("textLength");
  notes.textContent = count ? `×${number(count)}` : "";
}

function view(box) {
  drawing.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
  document.getElementById("drawing").classList.toggle("moved", box.width < full.width - 0.5);
}

function seen() {
  const { x, y, width, height } = drawing.viewBox.baseVal;
  return { x, y, width, height };
}

function zoom(factor, at = { x: 0.5, y: 0.5 }) {
  const box = seen();
  const width = Math.min(full.width, Math.max(full.width / 12, box.width / factor));
  const height = width * full.height / full.width;
  place({ x: box.x + (box.width - width) * at.x, y: box.y + (box.height - height) * at.y, width, height });
}

function place(box) {
  const within = (value, low, high) => Math.min(Math.max(value, low), high);
  view({ ...box, x: within(box.x, full.x, full.x + full.width - box.width), y: within(box.y, full.y, full.y + full.height - box.height) });
}

// Drawings can be moved with the pointer, and made larger with the wheel and the control key.
function movable() {
  let held = null;
  drawing.addEventListener("pointerdown", (event) => {
    if (event.button === 0) held = { x: event.clientX, y: event.clientY, box: seen(), moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!held || event.buttons === 0) return;
    const scale = held.box.width / drawing.clientWidth;
    const [across, down] = [event.clientX - held.x, event.clientY - held.y];
    held.moved ||= Math.hypot(across, down) > 4;
    if (held.moved) place({ ...held.box, x: held.box.x - across * scale, y: held.box.y - down * scale });
  });
  // What was moved is not clicked.
  drawing.addEventListener("click", (event) => {
    if (held?.moved) event.stopPropagation();
    held = null;
  }, { capture: true });
  addEventListener("pointerup", (event) => {
    if (!drawing.contains(event.target)) held = null;
  });
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const area = drawing.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, { x: (event.clientX - area.x) / area.width, y: (event.clientY - area.y) / area.height });
  }, { passive: false });
  document.getElementById("closer").addEventListener("click", () => zoom(1.4));
  document.getElementById("farther").addEventListener("click", () => zoom(1 / 1.4));
  document.getElementById("fit").addEventListener("click", () => view(full));
}
