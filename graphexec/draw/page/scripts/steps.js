// The list of all steps, which makes only the visible rows; and the search in it.

const list = document.getElementById("list");
const rows = document.getElementById("rows");
const search = document.getElementById("search");
const matches = document.getElementById("matches");
// The height of a row in pixels, as in the style sheet.
const ROW = 44;
// The positions in the list: all, or the matches of the search.
let listed = [];
let found = null;

function listSteps(position) {
  listed = found ?? Array.from({ length: last() + 1 }, (_, index) => index);
  rows.style.height = `${listed.length * ROW}px`;
  drawRows(position);
}

function drawRows(position) {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const end = Math.min(listed.length, first + Math.ceil(list.clientHeight / ROW) + 8);
  const made = [];
  for (let index = first; index < end; index += 1) made.push(row(listed[index], index, listed[index] === position));
  rows.replaceChildren(...made);
  if (made.length && listed.includes(position)) list.setAttribute("aria-activedescendant", `row-${position}`);
  else list.removeAttribute("aria-activedescendant");
}

function row(position, index, current) {
  const made = element(
    "div",
    {
      id: `row-${position}`,
      class: `row ${current ? "current" : ""} ${visitAt(position) && hasFailed(visitAt(position)) ? "bad" : ""}`,
      role: "option",
      "aria-selected": String(current),
      "data-position": position,
    },
    ...rowText(position),
  );
  made.style.top = `${index * ROW}px`;
  return made;
}

function rowText(position) {
  const visit = visitAt(position);
  if (!visit) {
    const [name, text] =
      position === 0
        ? ["start", askedFor()]
        : [
            statusText(),
            run.result.output ?? run.result.error?.message ?? (run.result.limit ? stopped(run.result.limit) : ""),
          ];
    return [
      element("span", { class: "number" }),
      element("span", { class: "name" }, element("b", {}, name)),
      element("span", { class: "took" }),
      gistLine(inline(text)),
    ];
  }
  const look = looks.get(visit.node)?.look ?? "pure";
  const name = element(
    "span",
    { class: "name" },
    element("span", { class: `dot ${look}` }),
    element("b", {}, visible(visit.node)),
    visit.moved ? ` → ${visible(visit.moved.outcome)}` : " …",
  );
  return [
    element("span", { class: "number" }, visit.iteration === null ? "" : number(visit.iteration)),
    name,
    element("span", { class: "took" }, duration(secondsOf(visit))),
    gistLine(gist(visit), hasFailed(visit)),
  ];
}

function gistLine(text, bad = false) {
  const line = element("span", { class: bad ? "gist bad" : "gist", dir: "auto" });
  fill(line, text.slice(0, LINE));
  return line;
}

function keepInSight(position) {
  const index = listed.indexOf(position);
  if (index < 0) return;
  const top = index * ROW;
  if (top < list.scrollTop + ROW) list.scrollTop = top - ROW;
  else if (top + 2 * ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + 2 * ROW - list.clientHeight;
}

function searchFor(words) {
  const { conditions, phrase } = readFilter(words);
  pattern = phrase ? new RegExp(phrase.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu") : null;
  found = words ? positionsWith(pattern, conditions) : null;
}

// Return the positions whose text has a match, and whose visits fulfil all conditions.
function positionsWith(wanted, conditions) {
  const all = [];
  const has = (text) => wanted === null || wanted.test(text);
  const free = !conditions.length;
  if (free && has(searchable(run.start, ["input", "tools", "model", "agent"]))) all.push(0);
  run.visits.forEach((visit, index) => {
    if (fulfils(visit, conditions) && has(searchedIn(visit))) all.push(index + 1);
  });
  if (free && run.result && has(searchable(run.result, ["output", "error", "reason"]))) all.push(last());
  return all;
}

function searchable(record, keys) {
  const texts = [];
  for (const key of keys) gather(record[key], texts);
  return texts.join("\n");
}

function showMatches(position) {
  if (!found) matches.textContent = "";
  else if (!found.length) matches.textContent = "no match";
  else
    matches.textContent = found.includes(position)
      ? `${number(found.indexOf(position) + 1)} of ${number(found.length)}`
      : `${number(found.length)}`;
  for (const id of ["previous-match", "next-match"]) document.getElementById(id).disabled = !found?.length;
}

// Return the next or previous match from a position, wrapping around.
function matchFrom(position, forward) {
  if (!found?.length) return null;
  if (forward) return found.find((one) => one > position) ?? found[0];
  return found.findLast((one) => one < position) ?? found.at(-1);
}
