// The page: the selected position in the run, and the controls that change it.

const given = JSON.parse(document.getElementById("data").textContent);
const { picture, live } = given;
const edges = new Map(picture.arrows.map((arrow, index) => [`${arrow.source} ${arrow.outcome}`, index]));
const looks = new Map(picture.boxes.map((box) => [box.name, box]));
// The nodes of pieces that are badges on the edges.
const badged = new Set((picture.folded ?? []).map((box) => box.name));
const hasRun = given.records.length > 0 || live !== null;
const byId = (id) => document.getElementById(id);
const slider = byId("slider");

let position = 0;
let following = live !== null;
let playing = null;
// Whether the reader has chosen a theme.
let chosen = false;

function askedFor() {
  const input = run.start.input;
  if (input === undefined || input === null) return "";
  const words = typeof input === "object" && "input" in input ? input.input : input;
  return typeof words === "string" ? words : JSON.stringify(words);
}

function go(wanted) {
  const before = position;
  position = Math.min(Math.max(wanted, 0), last());
  following = live !== null && position === last();
  show(before === position);
}

function show(again) {
  slider.max = String(last());
  slider.value = String(position);
  slider.setAttribute("aria-valuetext", positionText());
  byId("position").textContent = positionText();
  light(position);
  showTicks();
  showDetail(position, again);
  listSteps(position);
  keepInSight(position);
  drawRows(position);
  showMatches(position);
  for (const id of ["first", "back"]) byId(id).disabled = position === 0;
  for (const id of ["forward", "last"]) byId(id).disabled = position === last();
}

function positionText() {
  if (position === 0) return "start";
  const visit = visitAt(position);
  return visit ? `${number(position)} / ${number(run.visits.length)}` : "end";
}

function showHeader() {
  const words = askedFor();
  byId("asked").textContent = hasRun
    ? visible(words.slice(0, 600)) || "Run"
    : `State machine starting at ${visible(picture.start)}`;
  const result = run.result;
  byId("status").hidden = !hasRun;
  byId("status").textContent = statusText();
  byId("status").className = `badge ${result ? result.status : run.over === null && !run.silent ? "running" : "error"}`;
  byId("fault").hidden = !run.over;
  byId("fault").textContent = visible(run.over ?? "");
  const known = [run.start.model, run.start.agent, run.start.tools?.map(nameOf).join(", ")];
  byId("known").textContent = hasRun
    ? known
        .filter(Boolean)
        .map((one) => visible(nameOf(one)))
        .join(" · ")
    : `${plural(picture.boxes.length, "node")} · ${plural(picture.arrows.length, "edge")}`;
  byId("totals").replaceChildren(...totals());
  byId("proof").textContent = visible((picture.caption ?? []).join(" "));
}

function nameOf(one) {
  return typeof one === "string" ? one : (one?.name ?? JSON.stringify(one));
}

function totals() {
  if (!hasRun) return [];
  const spent = run.result?.spent?.iterations === undefined ? (run.visits.at(-1)?.spent ?? {}) : run.result.spent;
  const shown = [
    ["steps", number(run.visits.length)],
    ["model calls", number(spent.model_calls ?? 0)],
    ["tool calls", number(spent.tool_calls ?? 0)],
    ["tokens", number(spent.tokens ?? 0)],
    ["cached tokens", spent.cached_tokens > 0 ? number(spent.cached_tokens) : ""],
    ["cost", spent.cost > 0 ? number(spent.cost) : ""],
    ["time", duration(secondsNow())],
  ];
  return shown
    .filter(([, value]) => value !== "")
    .map(([label, value]) =>
      element("div", {}, element("dt", {}, label), element("dd", { id: label === "time" ? "time" : null }, value)),
    );
}

function play() {
  if (playing) return pause();
  if (position === last()) go(0);
  labelPlayButton("pause");
  const tick = () => {
    go(position + 1);
    if (position === last()) return pause();
    playing = setTimeout(tick, Number(byId("speed").value));
  };
  playing = setTimeout(tick, Number(byId("speed").value));
}

function pause() {
  clearTimeout(playing);
  playing = null;
  labelPlayButton("play");
}

// Label the button with its next action.
function labelPlayButton(act) {
  byId("play-text").textContent = act;
  byId("play").setAttribute("aria-label", `${act} (space)`);
  byId("play").classList.toggle("playing", act === "pause");
}

// Go to the next visit of the clicked node or edge, or else to the first.
function choose({ node, edge }) {
  const fits = (visit, index) => (node === undefined ? edgeAt(index) === edge : visit.node === node);
  if (node === "END") return move(last());
  const after = run.visits.findIndex((visit, index) => index >= position && fits(visit, index));
  const next = after >= 0 ? after : run.visits.findIndex(fits);
  if (next >= 0) move(next + 1);
}

// A move by the reader ends playback.
function move(wanted) {
  pause();
  call = null;
  go(wanted);
  writeAddress();
}

// Go to the next or previous step that failed, wrapping around.
function toFailure(forward) {
  const positions = failedPositions();
  const next = forward
    ? (positions.find((one) => one > position) ?? positions[0])
    : (positions.findLast((one) => one < position) ?? positions.at(-1));
  if (next !== undefined) move(next);
}

function toMatch(forward) {
  const wanted = matchFrom(position, forward);
  if (wanted === null) return;
  move(wanted);
  detail.querySelector("mark")?.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  ArrowLeft: () => move(position - 1),
  k: () => move(position - 1),
  ArrowRight: () => move(position + 1),
  j: () => move(position + 1),
  e: () => toFailure(true),
  E: () => toFailure(false),
  Home: () => move(0),
  End: () => move(last()),
  " ": play,
  "/": () => search.focus(),
  d: turnTheme,
  f: turnPieces,
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target === search) return onSearchKey(event);
  if (event.key === " " && target.closest("button, summary, select")) return;
  if (target.closest("select, input") && !["/", "d", "f", " "].includes(event.key)) return;
  if (target === list && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    event.preventDefault();
    return inList(event.key === "ArrowDown");
  }
  const act = event.key === "d" || event.key === "f" || hasRun ? KEYS[event.key] : undefined;
  if (!act) return;
  event.preventDefault();
  act();
}

function inList(down) {
  const wanted = down ? listed.find((one) => one > position) : listed.findLast((one) => one < position);
  if (wanted !== undefined) move(wanted);
}

function onSearchKey(event) {
  if (event.key === "Escape") {
    search.value = "";
    onSearch();
    search.blur();
  } else if (event.key === "Enter") {
    toMatch(!event.shiftKey);
  } else return;
  event.preventDefault();
}

function onSearch() {
  searchFor(search.value);
  list.scrollTop = 0;
  show(true);
  writeAddress();
}

function dark() {
  return document.documentElement.dataset.theme === "dark";
}

function turnTheme() {
  chosen = true;
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  writeAddress();
}

const system = matchMedia("(prefers-color-scheme: dark)");

function followSystem() {
  if (!chosen) document.documentElement.dataset.theme = system.matches ? "dark" : "light";
}

function begin() {
  followSystem();
  system.addEventListener("change", followSystem);
  byId("theme").addEventListener("click", turnTheme);
  addEventListener("keydown", onKey);
  document.body.classList.toggle("without-run", !hasRun);
  readDrawing(picture, hasRun ? choose : null);
  readPieces(given.clusters);
  for (const record of given.records) append(record);
  showHeader();
  if (!hasRun) return;
  const acts = {
    first: () => move(0),
    back: () => move(position - 1),
    play,
    forward: () => move(position + 1),
    last: () => move(last()),
  };
  for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
  slider.addEventListener("input", () => move(Number(slider.value)));
  search.addEventListener("input", onSearch);
  byId("previous-match").addEventListener("click", () => toMatch(false));
  byId("next-match").addEventListener("click", () => toMatch(true));
  list.addEventListener("scroll", () => drawRows(position), { passive: true });
  list.addEventListener("click", (event) => {
    const chosenRow = event.target.closest("[data-position]");
    if (chosenRow) move(Number(chosenRow.dataset.position));
  });
  addEventListener("resize", () => drawRows(position));
  followAddress();
  addEventListener("hashchange", followAddress);
  if (live !== null) listen();
}

begin();
performance.mark("usable");
