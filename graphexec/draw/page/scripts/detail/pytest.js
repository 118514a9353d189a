// A test in Python that repeats a run up to a request to the model, and asserts what the machine makes of the reply.

import { callsOf } from "../run/calls.js";
import { requestOf } from "../run/prompts.js";
import { replyTo } from "../run/requests.js";
import { run } from "../run/run.js";

// The functions that make the agents whose runs can be repeated.
/** @type {Record<string, string>} */
const MAKERS = {
  tool_calling: "create_tool_calling_agent",
  react: "create_react_agent",
  structured: "create_structured_agent",
};
// The nodes that their runs pass. A run that passes others needs its own program.
const NODES = new Set(["plan", "parse", "dispatch_tools", "check_return_direct", "END"]);
const RULES = new Set(["avoid_dummies", "answer_repeats", "refuse_dummies", "refuse_repeats"]);
// Built-in exceptions that are not made from a message.
const UNUSUAL = /^(?:KeyError|Unicode\w+|\w*Group)$/;

// The length of a line above which its items are below each other.
const LINE_LENGTH = 90;

/**
 * Return whether a test can repeat the run up to a request, if the machine of the test has its nodes.
 *
 * @param {ModelEffect} effect
 * @returns {boolean}
 */
export function isRepeatable(effect) {
  const { position, index } = requestOf(effect);
  const { input } = run.start;
  return (
    agentKind(effect) in MAKERS &&
    (typeof input === "string" || typeof input?.input === "string") &&
    run.requests.slice(0, index).every(replyTo) &&
    (replyTo(effect) !== null || run.visits[position - 1].failure !== null)
  );
}

/**
 * Return the first node on the way to the reply of a request that the machine of a test would lack, or undefined.
 *
 * @param {ModelEffect} effect
 * @returns {string | undefined}
 */
export function missingNode(effect) {
  const { position } = requestOf(effect);
  const rules = agentKind(effect) === "structured";
  const passed = run.visits.slice(0, lastPure(position)).flatMap(({ node, moved }) => [node, moved?.target ?? node]);
  return passed.find((node) => !NODES.has(node) && !(rules && RULES.has(node)));
}

/**
 * Return the kind of the agent; if the records do not name it, the request shows it.
 *
 * @param {ModelEffect} effect
 * @returns {string}
 */
function agentKind(effect) {
  const { tools = [], schema, stop = [] } = requestOf(effect).settings;
  if (run.start.agent) return run.start.agent;
  if (schema) return "structured";
  return tools.length || !stop.length ? "tool_calling" : "react";
}

/**
 * Return the source of a test that repeats the run up to a request.
 *
 * @param {ModelEffect} effect
 * @returns {string}
 */
export function asPytest(effect) {
  const { position, index } = requestOf(effect);
  const failed = failureAfter(effect);
  const replies = run.requests.slice(0, index + 1).map((one) => modelReply(replyTo(one), failed));
  const tools = toolResults(effect).map(([name, results]) =>
    pythonCall("scripted_tool", [pythonValue(name), inBrackets(results)]),
  );
  const maker = MAKERS[agentKind(effect)];
  const raised = failed && exceptionName(failed);
  const options = [
    "agent=agent",
    "tools=tools",
    `max_iterations=${run.start.limits?.iterations ?? index + 1}`,
    `handle_parsing_errors=${raised === "ParseError" ? "False" : "True"}`,
    "tool_concurrency=1",
  ];
  const body = [
    `model = ${pythonCall("ScriptedModel", [inBrackets(replies)])}`,
    `tools = ${inBrackets(tools)}`,
    `agent = ${maker}(model, tools)`,
    "# One call after the other: the tools return their results in the order of the run.",
    `executor = ${pythonCall("AgentExecutor", options)}`,
    ...(raised ? raisingLines(raised) : movingLines(position)),
  ];
  const names = ["AgentExecutor", ...(raised ? [] : ["Moved"]), ...(raised === "ParseError" ? [raised] : []), maker];
  const libraries = raised ? ["import pytest"] : ["from contextlib import closing", "from itertools import islice"];
  const messages = replies.some((one) => one.includes("ToolCall(")) ? "ModelReply, ToolCall" : "ModelReply";
  return `"""Step ${position} of a run: what the machine makes of the model's reply."""

${libraries.join("\n")}

from graphexec import ${names.join(", ")}
from graphexec.messages import ${messages}
from graphexec.testing import ScriptedModel, scripted_tool


def test_step_${position}():
${indented(body.join("\n"))}
`;
}

/**
 * Return the exception of a request without a reply, or of the steps that read the reply, or null.
 *
 * @param {ModelEffect} effect
 * @returns {ErrorData | null}
 */
function failureAfter(effect) {
  const { position } = requestOf(effect);
  return run.visits[lastPure(position)]?.failure?.error ?? run.visits[position - 1].failure?.error ?? null;
}

/**
 * Return the position of the last step that only reads the reply of a step: it requests nothing, and it ended.
 *
 * @param {number} position
 * @returns {number}
 */
function lastPure(position) {
  let last = position;
  while (run.visits[last]?.moved && !run.visits[last].records.length && run.visits[last].node !== "plan") last += 1;
  return last;
}

/**
 * @param {string} raised
 * @returns {string[]}
 */
function raisingLines(raised) {
  return [`with pytest.raises(${raised}):`, `    executor.run(${pythonValue(run.start.input)})`];
}

/**
 * Return the lines that run to the last step that reads the reply, and assert the outcomes.
 *
 * @param {number} position
 * @returns {string[]}
 */
function movingLines(position) {
  const last = lastPure(position);
  const moves = run.visits.slice(position - 1, last).flatMap(({ moved }) => moved ?? []);
  const found = moves.map((moved) => `(${[moved.node, moved.outcome, moved.target].map(pythonValue).join(", ")})`);
  return [
    `with closing(executor.stream(${pythonValue(run.start.input)})) as events:`,
    `    moves = list(islice((event for event in events if isinstance(event, Moved)), ${last}))`,
    `outcomes = [(move.node, type(move.outcome).__name__, move.target) for move in moves[${position - 1}:]]`,
    `assert outcomes == ${inBrackets(found)}`,
    ...valueLines(moves[last - position]),
  ];
}

/**
 * Return the lines that assert the calls or the answer in the reply.
 *
 * @param {MovedRecord} moved
 * @returns {string[]}
 */
function valueLines({ outcome, value }) {
  if (outcome === "Acted") {
    const calls = value.actions.map(
      (/** @type {StepData} */ action) => `(${pythonValue(action.tool)}, ${pythonValue(action.tool_input)})`,
    );
    const asked = "[(action.tool, action.tool_input) for action in moves[-1].outcome.actions]";
    return [`assert ${asked} == ${inBrackets(calls)}`];
  }
  return outcome === "AgentFinish"
    ? [`assert moves[-1].outcome.return_values == ${pythonValue(value.return_values)}`]
    : [];
}

/**
 * Return what each tool has returned before a request. The observation of a failure is a result as well: the model is
 * told the same.
 *
 * @param {ModelEffect} effect
 * @returns {[string, string[]][]}
 */
function toolResults(effect) {
  const { position, settings } = requestOf(effect);
  const calls = toolCallsOf(run.visits);
  const before = toolCallsOf(run.visits.slice(0, position));
  const named = [settings.tools, run.start.tools].find((tools) => tools?.length) ?? calls.map((one) => one.tool);
  return [...new Set(named.map((/** @type {any} */ one) => one.name ?? one))].map((name) => [
    name,
    before.filter((one) => one.tool === name).map((one) => pythonValue(one.observation)),
  ]);
}

/**
 * Return the calls of tools that exist, in their order: the tool, and what it returned.
 *
 * @param {Visit[]} visits
 * @returns {{ tool: string, observation: any }[]}
 */
function toolCallsOf(visits) {
  return visits
    .flatMap(callsOf)
    .flatMap(({ effect, reply }) =>
      effect?.tool !== undefined && reply && reply.status !== "unknown_tool"
        ? { tool: effect.tool, observation: reply.observation }
        : [],
    );
}

/**
 * Return a reply of the model, or the exception that came in its place.
 *
 * @param {ReplyData | null} reply
 * @param {ErrorData | null} error
 * @returns {string}
 */
function modelReply(reply, error) {
  if (reply?.content === undefined) return pythonCall(exceptionName(error), [pythonValue(error?.message ?? "")]);
  const calls = (reply.tool_calls ?? []).map((one) =>
    pythonCall("ToolCall", [one.id, one.name, one.arguments].map(pythonValue)),
  );
  const given = [pythonValue(reply.content)];
  if (calls.length) given.push(inBrackets(calls, "(", ",)"));
  if (["length", "other"].includes(reply.finish_reason ?? ""))
    given.push(`finish_reason=${pythonValue(reply.finish_reason)}`);
  return pythonCall("ModelReply", given);
}

/**
 * Return the class of an exception; another one stands in for a class whose module the records do not know.
 *
 * @param {ErrorData | null} error
 * @returns {string}
 */
function exceptionName(error) {
  const type = error?.type ?? "";
  if (/(?:^|\.)ParseError$/.test(type)) return "ParseError";
  return /^[A-Za-z]\w*$/.test(type) && !UNUSUAL.test(type) ? type : "RuntimeError";
}

/**
 * Return a value of JSON as Python. A string of JSON is one of Python, too.
 *
 * @param {any} value
 * @returns {string}
 */
function pythonValue(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return inBrackets(value.map(pythonValue));
  return inBrackets(
    Object.entries(value).map(([name, one]) => `${pythonValue(name)}: ${pythonValue(one)}`),
    "{",
    "}",
  );
}

/**
 * @param {string} name
 * @param {string[]} given
 * @returns {string}
 */
function pythonCall(name, given) {
  return `${name}${inBrackets(given, "(", ")")}`;
}

/**
 * Return items between brackets, in one line or one below the other.
 *
 * @param {string[]} items
 * @param {string} [open]
 * @param {string} [close]
 * @returns {string}
 */
function inBrackets(items, open = "[", close = "]") {
  const line = `${open}${items.join(", ")}${close}`;
  if (line.length <= LINE_LENGTH && !line.includes("\n")) return line;
  return `${open}\n${items.map((item) => `${indented(item)},\n`).join("")}${close.replace(",", "")}`;
}

/**
 * @param {string} text
 * @returns {string}
 */
function indented(text) {
  return text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
}
