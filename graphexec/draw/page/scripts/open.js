// The page of several runs, before it shows one of its pages: their index, the run that the address names, or two runs.

import { addressParts } from "./base/address.js";

const held = holder("data");
/** @type {{ title: string, pictures: MachineData[], runs: (PackedRunData | DamagedRunData)[] }} */
const { title, pictures, runs } = JSON.parse(held.textContent);
// The names in the address that decide which page is shown.
const DECIDING = ["run", "with", "machine"];
const opened = asked();

/**
 * Return an element that holds something for the page.
 * @param {string} id
 * @returns {HTMLElement}
 */
function holder(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * Return a copy of what a template holds.
 * @param {string} id
 * @returns {DocumentFragment}
 */
function copyOf(id) {
  const template = /** @type {HTMLTemplateElement} */ (holder(id));
  return document.importNode(template.content, true);
}

/**
 * Return what the address says of the page that it names.
 * @returns {string}
 */
function asked() {
  const parts = addressParts();
  return DECIDING.map((name) => parts.get(name) ?? "").join("\n");
}

/**
 * Show the page that the address names.
 * @returns {void}
 */
function openPage() {
  const parts = addressParts();
  const readable = runs.filter((run) => run.packed !== undefined);
  const [one, other] = ["run", "with"].map((side) => readable.find(({ name }) => name === parts.get(side)));
  if (!one) {
    const machine = Number.parseInt(parts.get("machine") ?? "", 10);
    const chosen = pictures.find((picture) => picture.machine === machine) ?? null;
    const listed = runs.map(({ packed, ...facts }) => ({ ...facts, readable: packed !== undefined }));
    return show("index", chosen ?? pictures[0], { title, pictures, runs: listed, chosen: chosen?.machine ?? null });
  }
  const shown = [one, other].filter(Boolean);
  document.title = shown.map((run) => run.name).join(" and ");
  if (!other) return show("page", pictures[one.picture], { records: one.packed });
  const same = pictures[one.picture].machine === pictures[other.picture].machine;
  const sides = shown.map((run) => ({ name: run.name, records: run.packed }));
  return show("compare", pictures[one.picture], { runs: sides, same });
}

/**
 * Show a page: its body, its drawing, its data, and then its script, which the policy of this page allows.
 * @param {"index" | "page" | "compare"} page
 * @param {MachineData | undefined} picture
 * @param {Record<string, unknown>} data
 */
function show(page, picture, data) {
  const body = copyOf(`${page}-body`);
  if (picture) {
    const drawing = copyOf(`drawing-${pictures.indexOf(picture)}`);
    for (const note of drawing.querySelectorAll(".notes")) note.textContent = "";
    body.getElementById("drawing")?.replaceChildren(drawing);
  }
  if (page !== "index") body.querySelector(".asked")?.prepend(wayBack());
  document.body.prepend(body);
  const nothing = { picture: { start: "", boxes: [], arrows: [] }, clusters: {} };
  held.textContent = JSON.stringify({ ...(picture ?? nothing), records: "", live: null, ...data });
  const script = document.createElement("script");
  script.type = "module";
  script.textContent = holder(`${page}-script`).textContent;
  document.body.append(script);
}

/**
 * Make the link to the index.
 * @returns {HTMLAnchorElement}
 */
function wayBack() {
  const link = document.createElement("a");
  link.href = "#";
  link.className = "way-back";
  link.textContent = "all runs";
  return link;
}

addEventListener("hashchange", () => {
  if (asked() !== opened) location.reload();
});
openPage();
