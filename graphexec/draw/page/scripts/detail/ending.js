// The end of a run: its answer, its failures, and its steps.

import { block, collapsible, dataView, element, span } from "../base/dom.js";
import { live } from "../base/given.js";
import { inline, number, plural, visible } from "../base/text.js";
import { isFailure, requestsOf } from "../run/calls.js";
import { failedPositions } from "../run/failures.js";
import { run } from "../run/run.js";
import { recordsPart } from "./copying.js";
import { errorPart, heading, section, stepLink } from "./parts.js";
import { spentBars } from "./spent.js";
import { stoppingParts } from "./stopping.js";

// The maximum number of steps in a list.
const DONE = 200;

/**
 * Return the state of the run, or how it ended.
 * @returns {string}
 */
export function statusText() {
  const result = run.result;
  if (!result && live && run.silent) return "no sign of life";
  if (!result) return !live ? "not finished" : run.over === null ? "running" : "incomplete";
  if (result.status === "stopped")
    return `stopped by ${visible(String(result.limit?.limit ?? result.reason ?? "a limit")).replaceAll("_", " ")}`;
  return visible(String(result.status));
}

/**
 * Return a sentence about the limit that stopped a run.
 * @param {LimitData} limit
 * @returns {string}
 */
export function limitText(limit) {
  const wanted = limit.wanted > 1 ? `, and ${number(limit.wanted)} more were requested` : "";
  return `The limit of ${number(limit.value)} ${visible(String(limit.limit)).replaceAll("_", " ")} was reached (${number(limit.reached)} spent${wanted}).`;
}

/**
 * An action with its observation, and if it is known, the position of its step.
 * @typedef {StepData & { position?: number }} DoneStep
 */

/**
 * Show the end of a run.
 * @param {ResultRecord} result
 * @returns {(HTMLElement | null)[]}
 */
export function endParts(result) {
  const { status, output, limit, error, reason, steps, spent, unread } = result;
  return [
    heading(statusText(), `ending ${status}`, `after ${plural(run.visits.length, "step")}`),
    spentBars(spent?.iterations === undefined ? run.visits.at(-1)?.spent : spent),
    error ? errorPart(error, "error") : null,
    failedLinks(),
    ...stoppingParts(result),
    section(
      status === "stopped" ? "Generated answer" : "Answer",
      output === null || output === undefined ? null : dataView(output, "answer"),
      { kind: "answer", aside: reason === "finished" || limit ? "" : visible(String(reason ?? "")) },
    ),
    section("Not read, since the model invented it", unread ? block(unread, { name: "unread" }) : null),
    section(
      "Steps",
      steps?.length
        ? collapsible(stepsTitle(steps), "steps", () => doneList(steps, ""), { open: steps.length <= 8, printed: true })
        : null,
    ),
    ...embeddedCalls(),
    recordsPart([result], "end"),
  ];
}

/**
 * Show the calls of tools in embedded graphs, which are no steps of the run.
 * @returns {(HTMLElement | null)[]}
 */
function embeddedCalls() {
  /** @type {Map<string, DoneStep[]>} */
  const calls = new Map();
  for (const [index, { node }] of run.visits.entries()) {
    const name = node.includes(".") ? node.slice(0, node.lastIndexOf(".")) : "";
    for (const request of name ? requestsOf(run.visits[index]) : [])
      for (const { effect, reply } of request.calls)
        if (effect?.tool !== undefined) {
          const found = calls.get(name) ?? [];
          found.push({ ...effect, ...reply, position: index + 1 });
          calls.set(name, found);
        }
  }
  return [...calls].map(([name, steps]) =>
    section(`${visible(name)}: ${plural(steps.length, "tool call")}`, doneList(steps, `${name} `)),
  );
}

/**
 * @param {DoneStep[]} steps
 * @param {string} name
 * @returns {HTMLOListElement}
 */
function doneList(steps, name) {
  const more = `and ${number(steps.length - DONE)} more; see the list of steps`;
  return element(
    "ol",
    { class: "done" },
    ...steps.slice(0, DONE).map((step, index) => doneStep(step, `${name}${index}`)),
    steps.length > DONE ? element("li", { class: "faint" }, more) : null,
  );
}

/**
 * Replies that could not be parsed are steps, but no tool calls.
 * @param {StepData[]} steps
 * @returns {string}
 */
function stepsTitle(steps) {
  const unread = steps.filter((step) => step.status === "parse_error").length;
  const calls = plural(steps.length - unread, "tool call");
  return unread ? `${calls}, ${plural(unread, "reply", "replies")} not parsed` : calls;
}

/**
 * Show links to the steps that failed.
 * @returns {HTMLElement | null}
 */
function failedLinks() {
  const positions = failedPositions();
  if (!positions.length) return null;
  const links = positions.slice(0, 50).flatMap((one, index) => [index ? ", " : "", stepLink(one)]);
  const more = positions.length > 50 ? [` and ${number(positions.length - 50)} more`] : [];
  return section(`${plural(positions.length, "step")} failed`, element("p", {}, ...links, ...more));
}

/**
 * @param {DoneStep} step
 * @returns {HTMLElement[]}
 */
function linkOf({ position }) {
  return position === undefined ? [] : [stepLink(position)];
}

/**
 * @param {DoneStep} step
 * @param {number | string} index
 * @returns {HTMLElement}
 */
function doneStep(step, index) {
  const failed = isFailure(step);
  return element(
    "li",
    {},
    element(
      "div",
      { class: "call" },
      span("tool", step.tool),
      ...linkOf(step),
      dataView(step.tool_input, `done ${index} input`, 1),
    ),
    element("div", { class: failed ? "bad" : "" }, dataView(step.observation, `done ${index}`, 1)),
    step.unread ? element("div", { class: "faint" }, "not read: ", span("unread", inline(step.unread))) : null,
  );
}
