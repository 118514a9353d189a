// One step: the node's input, its requests and replies, its outcome, and the usage of limits.

import { collapsible, dataView, element, isEmpty, span } from "../base/dom.js";
import { byId, live, looks } from "../base/given.js";
import { dateText, duration, number, timeText, visible } from "../base/text.js";
import { view } from "../base/view.js";
import { callsOf, secondsOf } from "../run/calls.js";
import { arrowOf } from "../run/edges.js";
import { graphBudgets } from "../run/iterations.js";
import { cutBefore } from "../run/failures.js";
import { withoutLog } from "../run/outcomes.js";
import { run, visitAt } from "../run/run.js";
import { recordsPart } from "./copying.js";
import { causeText, endParts, isCause } from "./ending.js";
import { receivedParts, requestParts } from "./exchange.js";
import { errorPart, heading, holds, section, small, stepLink } from "./parts.js";
import { toolPart } from "./request.js";
import { spentBars } from "./spent.js";

export const detail = byId("detail");
// The parts of the state that the shown content depends on.
/** @type {unknown[]} */
let shown = [];

/**
 * Replace the content only if it has changed, so that text that the reader has selected stays selected.
 * @param {number} position
 * @param {boolean} again
 */
export function showDetail(position, again) {
  const top = again ? detail.scrollTop : 0;
  const visit = visitAt(position);
  const wanted = [
    position,
    visit ? visit.records.length : run.visits.length,
    visit?.moved,
    visit ? visit.iteration : run.visits[0],
    run.start,
    run.result,
    run.over,
    view.pattern?.source,
    view.against,
  ];
  if (wanted.length === shown.length && wanted.every((one, index) => one === shown[index])) return;
  shown = wanted;
  detail.replaceChildren(...detailParts(position));
  detail.scrollTop = top;
}

/**
 * Return the parts of the detail of a position.
 * @param {number} position
 * @returns {HTMLElement[]}
 */
export function detailParts(position) {
  const visit = visitAt(position);
  const parts = visit ? visitParts(visit, position) : run.result && position > 0 ? endParts(run.result) : startParts();
  return parts.filter(Boolean);
}

/** @returns {(HTMLElement | null)[]} */
function startParts() {
  const tools = run.start.tools ?? [];
  return [
    heading("start", "", "before step 1"),
    spentBars(run.visits[0]?.before ?? run.result?.spent),
    section("Input", run.start.input === undefined ? null : dataView(run.start.input, "input")),
    section("Tools", tools.length ? tools.map((tool) => toolPart(tool, `start ${tool.name}`)) : null),
    section("Run", runFacts()),
    recordsPart([run.start], "start"),
  ];
}

/**
 * Show which run it is: its id, its date, and how its requests were made.
 * @returns {HTMLElement | null}
 */
function runFacts() {
  const { began, model, agent, parameters } = run.start;
  const id = run.visits.find((visit) => visit.entered?.run)?.entered?.run;
  const facts = {
    id,
    began: began ? dateText(began) : null,
    agent,
    model,
    parameters,
  };
  const known = Object.fromEntries(Object.entries(facts).filter(([, value]) => !isEmpty(value)));
  return isEmpty(known) ? null : dataView(known, "run");
}

/**
 * @param {Visit} visit
 * @param {number} position
 * @returns {(HTMLElement | null)[]}
 */
function visitParts(visit, position) {
  const iteration = visit.iteration ?? visit.iterations;
  const where = [
    `step ${number(position)}`,
    iteration ? `iteration ${number(iteration)}` : "",
    ...graphBudgets(visit).map(([name, count]) => `${visible(name)} ${number(count)}`),
    duration(secondsOf(visit)),
    timeText(run.start.began, visit.records.find((record) => record.time !== undefined)?.time),
  ];
  const asks = visit.records.length > 0;
  return [
    heading(
      visit.node,
      looks.get(visit.node)?.look ?? "pure",
      where.filter(Boolean).join(" · "),
      looks.get(visit.node)?.lines?.[0],
    ),
    spentBars(spentWith(visit)),
    givenPart(visit, position, !asks),
    ...requestParts(visit, position),
    ...failureParts(visit, position),
    taskPart(visit, position),
    visit.moved ? outcomePart(visit.moved, position, !asks) : waiting(),
    recordsPart([visit.entered, ...visit.records, visit.moved], String(position)),
  ];
}

/**
 * What the run of an embedded graph is given, at its entry.
 * @param {Visit} visit
 * @param {number} position
 * @returns {HTMLElement | null}
 */
function taskPart({ node, moved }, position) {
  if (moved?.task === undefined) return null;
  const graph = node.slice(0, node.lastIndexOf("."));
  return section(`Input of ${visible(graph)}`, dataView(moved.task, `${position} task`));
}

/**
 * Return the usage of a visit. While it waits, the records do not say yet that it costs an iteration, as the heading does.
 * @param {Visit} visit
 * @returns {SpentData | null}
 */
function spentWith(visit) {
  const pending = visit.iteration !== null && visit.iteration > (run.iterations ?? 0);
  return visit.spent && pending ? { ...visit.spent, iterations: visit.spent.iterations + 1 } : visit.spent;
}

/**
 * The input of a visit: that of the run, or a link to the step before, whose outcome it is. One that failed shows the values.
 * @param {Visit} visit
 * @param {number} position
 * @param {boolean} open
 * @returns {HTMLElement | null}
 */
function givenPart(visit, position, open) {
  const before = visit.previous?.moved;
  if (before) {
    const title = `${visible(before.outcome)} from ${visible(before.node)}, `;
    const line = element("p", { class: "faint" }, title, stepLink(position - 1));
    return section("Input", [line, ...receivedParts(visit, position)]);
  }
  const value = run.start.input;
  if (isEmpty(value)) return null;
  const name = `${position} given`;
  return section(
    "Input",
    collapsible("input of the run", name, () => dataView(value, name), { open: open || small(value) }),
  );
}

/**
 * The parts of a step that show an exception, and replies that could not be parsed.
 * @param {Visit} visit
 * @param {number} position
 * @returns {(HTMLElement | null)[]}
 */
function failureParts(visit, position) {
  const parts = (visit.moved?.steps ?? []).flatMap(({ tool_input: input, observation }, index) => {
    const told = dataView(observation, `${position} told ${index}`);
    const options = { kind: "failed", aside: cutBefore(visit) };
    if (input === observation) return section("The reply could not be parsed; told the model", told, options);
    return [
      section("The reply could not be parsed", dataView(input, `${position} parse ${index}`), options),
      section("Told the model", told, { kind: "failed" }),
    ];
  });
  if (parts.length) parts.push(unreadReply(visit, position));
  if (visit.failure) parts.push(errorPart(visit.failure.error, `${position} error`, duration(visit.failure.seconds)));
  return parts;
}

/**
 * The reply that could not be parsed: its text, and its calls with their arguments as the model wrote them.
 * @param {Visit} visit
 * @param {number} position
 * @returns {HTMLElement | null}
 */
function unreadReply({ previous }, position) {
  const reply = previous ? callsOf(previous).at(-1)?.reply : null;
  const calls = (reply?.tool_calls ?? []).map(({ name, arguments: given }) => `${name} ${given}`);
  const text = [reply?.content, ...calls].filter(Boolean).join("\n");
  return text ? section("The reply", dataView(text, `${position} unread`), { kind: "failed" }) : null;
}

/**
 * @param {MovedRecord} moved
 * @param {number} position
 * @param {boolean} open
 * @returns {HTMLElement | null}
 */
function outcomePart(moved, position, open) {
  const { outcome: name, target, value } = moved;
  const line = element(
    "p",
    { class: "leads" },
    span("chip now", name),
    " → ",
    span(`target ${looks.get(target)?.look ?? "pure"}`, target),
    arrowOf(moved)?.exhausts ? element("span", { class: "faint" }, " a limit is used up") : null,
  );
  return section(
    "Outcome",
    [
      line,
      isEmpty(value)
        ? null
        : collapsible("data", `${position} outcome`, () => dataView(readableData(value), `${position} outcome`), {
            open: open || small(value) || holds(value),
          }),
    ].filter(Boolean),
    { kind: "outcome" },
  );
}

/**
 * Return the data of an outcome for readers: what stopped the run as a sentence, and the steps of an agent under a name of their own,
 * since those of the page are others.
 * @param {any} value
 * @returns {any}
 */
function readableData(value) {
  if (isCause(value)) return causeText(value);
  const shown = withoutLog(value);
  if (shown === null || typeof shown !== "object" || Array.isArray(shown)) return shown;
  const { limit, cause, run: agent } = shown;
  const changed = {
    ...(isCause(limit) ? { limit: causeText(limit) } : {}),
    ...(isCause(cause) ? { cause: causeText(cause) } : {}),
  };
  if (typeof agent?.steps !== "number") return { ...shown, ...changed };
  const { steps: observations, ...others } = agent;
  return { ...shown, ...changed, run: { observations, ...others } };
}

/**
 * Say why the step has no outcome.
 * @returns {HTMLElement}
 */
function waiting() {
  const open = live && run.over === null;
  const text = run.result ? "The run ended here." : open ? "Waiting for the next record." : "The records end here.";
  return element("p", { class: "faint waiting" }, text);
}
