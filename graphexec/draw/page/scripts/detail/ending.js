// The end of a run: its answer, its failures, and its steps.

import { block, collapsible, dataView, element, span } from "../base/dom.js";
import { live } from "../base/given.js";
import { duration, inline, number, plural, visible } from "../base/text.js";
import { callsOf, isFailure, isOfTool, timesOf } from "../run/calls.js";
import { cutBefore, failedPositions, failureText, messageOf } from "../run/failures.js";
import { run, visitAt } from "../run/run.js";
import { recordsPart } from "./copying.js";
import { errorPart, heading, section, stepLink } from "./parts.js";
import { spentBars } from "./spent.js";
import { slowPart, stoppingParts } from "./stopping.js";

// The maximum number of steps in a list.
const DONE = 200;
// The maximum numbers of failed steps that are described, and that are named.
const FAILED = 8;
const LINKS = 50;

/**
 * Return the state of the run, or how it ended.
 * @returns {string}
 */
export function statusText() {
  const result = run.result;
  if (!result && live && run.silent) return "no sign of life";
  if (!result) return !live ? "not finished" : run.over === null ? "running" : "incomplete";
  if (result.status === "stopped")
    return `stopped by ${visible(String(result.reason ?? "a limit")).replaceAll("_", " ")}`;
  return visible(String(result.status));
}

/**
 * Return whether a value in an outcome, which may be anything, is why a run stopped.
 * @param {any} value
 * @returns {value is LimitData | RefusalData}
 */
export function isCause(value) {
  if (typeof value?.by === "string" && typeof value.why === "string") return true;
  return typeof value?.limit === "string" && typeof value.value === "number" && typeof value.reached === "number";
}

/**
 * Return a sentence about what stopped a run: a limit or a refusal.
 * @param {LimitData | RefusalData} cause
 * @returns {string}
 */
export function causeText(cause) {
  if (!("limit" in cause)) return `${visible(cause.by)} refused to go on: ${visible(cause.why)}`;
  const whose = cause.outer ? " of the run around this one" : "";
  const wanted = cause.wanted > 1 ? `, and ${number(cause.wanted)} more were requested` : "";
  return `The limit of ${number(cause.value)} ${visible(String(cause.limit)).replaceAll("_", " ")}${whose} was reached (${number(cause.reached)} spent${wanted}).`;
}

/**
 * An action with its observation; and if they are known, where its call is and what time it took.
 * @typedef {StepData & { position?: number, call?: number, seconds?: number }} DoneStep
 * The call of a tool in a node of the graph of this name, or "" for the run's own.
 * @typedef {DoneStep & { graph: string, key: string }} DoneCall
 */

/**
 * Show the end of a run.
 * @param {ResultRecord} result
 * @returns {(HTMLElement | null)[]}
 */
export function endParts(result) {
  const { status, output, cause, error, reason, spent, unread } = result;
  const calls = calledTools();
  const steps = doneSteps(
    result,
    calls.filter(({ graph }) => !graph),
  );
  return [
    heading(statusText(), `ending ${status}`, `after ${plural(run.visits.length, "step")}`),
    spentBars(spent?.iterations === undefined ? run.visits.at(-1)?.spent : spent),
    error ? errorPart(error, "error") : null,
    failedLinks(),
    status === "waiting" ? waitingPart() : null,
    ...stoppingParts(result),
    slowPart(),
    section(
      status === "stopped" ? "Generated answer" : "Answer",
      output === null || output === undefined ? null : dataView(output, "answer"),
      { kind: "answer", aside: reason === "finished" || cause ? "" : visible(String(reason ?? "")) },
    ),
    section("Not read, since the model invented it", unread ? block(unread, { name: "unread" }) : null),
    section(
      "Tool calls",
      steps.length
        ? collapsible(stepsTitle(steps), "steps", () => doneList(steps, ""), { open: steps.length <= 8 })
        : null,
    ),
    ...embeddedCalls(calls.filter(({ graph }) => graph)),
    recordsPart([result], "end"),
  ];
}

/**
 * Show what a run waits for: the calls of its last step without a reply.
 * @returns {HTMLElement | null}
 */
function waitingPart() {
  const last = run.visits.at(-1);
  const open = last ? callsOf(last).filter(({ reply }) => !reply) : [];
  const parts = open.map(({ effect }, at) => dataView(effect?.question ?? effect?.value ?? effect?.tool, `open ${at}`));
  return section("Waits for", parts.length ? parts : null, { kind: "person" });
}

/**
 * Return the calls of tools in the order of their steps.
 * @returns {DoneCall[]}
 */
function calledTools() {
  return run.visits.flatMap((visit, index) => {
    const graph = graphOf(visit);
    const calls = callsOf(visit);
    return calls.flatMap((call, at) => {
      const { effect, reply, failure } = call;
      if (!isOfTool(call)) return [];
      const failed = failure && { status: "error", observation: messageOf(failure.error) };
      const place = { position: index + 1, call: at, seconds: timesOf(call)?.seconds, graph };
      return { ...effect, ...reply, ...failed, ...place, key: keyOfAction(effect ?? {}) };
    });
  });
}

/**
 * @param {Visit} visit
 * @returns {string}
 */
function graphOf({ node }) {
  return node.slice(0, Math.max(0, node.lastIndexOf(".")));
}

/**
 * @param {StepData} action
 * @returns {string}
 */
function keyOfAction({ tool, tool_input: input }) {
  return JSON.stringify([tool, input]);
}

/**
 * Return the steps of a run with the places and times of their calls. If the run did not reach its end, the calls after
 * the last step follow.
 * @param {ResultRecord} result
 * @param {DoneCall[]} calls
 * @returns {DoneStep[]}
 */
function doneSteps({ status, steps }, calls) {
  const unparsed = run.visits.flatMap((visit, index) =>
    graphOf(visit) ? [] : (visit.moved?.steps ?? []).map(() => index + 1),
  );
  const left = [...calls];
  let last = 0;
  /** @type {DoneStep[]} */
  const done = (steps ?? []).map((step) => {
    if (step.status === "parse_error") return { ...step, position: unparsed.shift() };
    const key = keyOfAction(step);
    const found = left.findIndex((one) => one.key === key);
    if (found < 0) return step;
    const [{ position, call, seconds }] = left.splice(found, 1);
    last = Math.max(last, position ?? 0);
    return { ...step, position, call, seconds };
  });
  if (status === "answered" || status === "stopped") return done;
  return [...done, ...left.filter(({ position = 0 }) => position > last)];
}

/**
 * Show the calls of tools in embedded graphs, which are no steps of the run.
 * @param {DoneCall[]} calls
 * @returns {(HTMLElement | null)[]}
 */
function embeddedCalls(calls) {
  return [...new Set(calls.map(({ graph }) => graph))].map((name) => {
    const steps = calls.filter(({ graph }) => graph === name);
    return section(`${visible(name)}: ${plural(steps.length, "tool call")}`, doneList(steps, `${name} `));
  });
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
 * Show the steps that failed: the first ones with what failed, others as links.
 * @returns {HTMLElement | null}
 */
function failedLinks() {
  // The one that ended the run first: the run went on after the others.
  const positions = failedPositions().sort((one, other) => Number(hasEnded(other)) - Number(hasEnded(one)));
  if (!positions.length) return null;
  const lines = positions.slice(0, FAILED).map((position) => element("p", { class: "line" }, ...failedLine(position)));
  const links = positions.slice(FAILED, LINKS).flatMap((one, index) => [index ? ", " : "and ", stepLink(one)]);
  const more = positions.length > LINKS ? ` and ${number(positions.length - LINKS)} more` : "";
  const others = links.length ? [element("p", {}, ...links, more)] : [];
  return section(`${plural(positions.length, "step")} failed`, [...lines, ...others]);
}

/**
 * Return whether a step ended the run.
 * @param {number} position
 * @returns {boolean}
 */
function hasEnded(position) {
  return run.visits[position - 1].failure !== null;
}

/**
 * Say which step failed, and how; an exception that ended the run is shown above.
 * @param {number} position
 * @returns {Node[]}
 */
function failedLine(position) {
  const visit = run.visits[position - 1];
  const how = hasEnded(position) ? " ended the run" : `: ${failureText(visit)}`;
  return [stepLink(position), span("", ` ${visit.node}${how}`)];
}

/**
 * @param {DoneStep} step
 * @param {number | string} index
 * @returns {HTMLElement}
 */
function doneStep(step, index) {
  const { tool, tool_input: input, observation, position, call, seconds } = step;
  const unparsed = step.status === "parse_error";
  const visit = visitAt(position ?? 0);
  const cut = unparsed && visit ? cutBefore(visit) : "";
  return element(
    "li",
    { class: unparsed && "unparsed" },
    element(
      "div",
      { class: "call" },
      unparsed ? element("b", { class: "bad" }, "reply not parsed", cut && `, ${cut}`) : span("tool", tool),
      // The reason why a reply could not be parsed may be all that the model was told.
      unparsed && input === observation ? null : dataView(input, `done ${index} input`, 1),
      element(
        "span",
        { class: "faint" },
        ...(position === undefined ? [] : [stepLink(position, call)]),
        seconds === undefined ? "" : ` · ${duration(seconds)}`,
      ),
    ),
    observation === undefined
      ? element("div", { class: "faint" }, "no reply")
      : element("div", { class: isFailure(step) ? "bad" : "" }, dataView(observation, `done ${index}`, 1)),
    step.unread ? element("div", { class: "faint" }, "not read: ", span("unread", inline(step.unread))) : null,
  );
}
