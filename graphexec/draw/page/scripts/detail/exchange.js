// The requests of a step and their replies: of models, tools, persons and the world.

import { block, collapsible, dataView, element, span } from "../base/dom.js";
import { characters, duration, number, plural, visible } from "../base/text.js";
import { selectCall } from "../controls/address.js";
import { callsOf, effectText, hasCallFailed, isFailure, requestsOf, spanOf, timesOf } from "../run/calls.js";
import { cutReplyText } from "../run/failures.js";
import { asksModel } from "../run/run.js";
import { toolCalls } from "./messages.js";
import { holds, section, tracebackPart } from "./parts.js";
import { modelPart } from "./request.js";

// More calls than these in one request are folded to a line each.
const FEW = 3;

/**
 * Show the requests of a visit.
 * @param {Visit} visit
 * @param {number} position
 * @returns {(HTMLElement | null)[]}
 */
export function requestParts(visit, position) {
  const parts = [];
  let first = 0;
  for (const [index, request] of requestsOf(visit).entries()) {
    const name = `${position} ${index}`;
    parts.push(...request.notices.map((record, at) => noticePart(record, `${name} ${at}`)));
    if (request.calls.length > 1) parts.push(callBars(request, first));
    for (const [at, one] of request.calls.entries()) {
      const part = `${name}.${one.member}`;
      const make = () => callParts(one, part).filter((made) => made !== null);
      const contents = request.calls.length > FEW ? [foldedCall(one, part, make)] : make();
      parts.push(element("div", { class: "pair", "data-call": first + at }, ...contents));
    }
    first += request.calls.length;
  }
  return parts;
}

/**
 * Show the last replies before a step that failed without a call of its own: it has received them.
 * @param {Visit} visit
 * @param {number} position
 * @returns {HTMLElement[]}
 */
export function receivedParts(visit, position) {
  if (!visit.failure || callsOf(visit).length) return [];
  let asking = visit.previous;
  while (asking && !callsOf(asking).length) asking = asking.previous;
  const calls = asking ? callsOf(asking) : [];
  const open = calls.length <= FEW;
  return calls.map((call, index) => {
    const name = `${position} received ${index}`;
    return foldedCall(
      call,
      name,
      () => [call.reply && replyPart(call.reply, name, "")].filter((one) => one !== null),
      open,
    );
  });
}

/**
 * Show a call in a line that opens; one that failed is open.
 * @param {Call} call
 * @param {string} name
 * @param {() => HTMLElement[]} make
 * @param {boolean} [open]
 * @returns {HTMLElement}
 */
function foldedCall(call, name, make, open = false) {
  const { effect, reply, failure } = call;
  const failed = hasCallFailed(call);
  const state = reply ? [reply.status, duration(reply.seconds)] : [failure ? "failed" : "no reply yet"];
  const text = [visible(effectText(call)), ...state].filter(Boolean).join(" · ");
  const part = collapsible(text, `${name} call`, () => element("div", {}, ...make()), {
    open: open || failed || holds([effect, reply]),
  });
  part.classList.toggle("bad", failed);
  return part;
}

/**
 * @param {Call} call
 * @param {string} name
 * @returns {(HTMLElement | null)[]}
 */
function callParts({ effect, notices, streamed, answer, reply }, name) {
  return [
    effect ? effectPart(effect, `${name} asked`) : null,
    ...notices.map((record, at) => noticePart(record, `${name} ${at}`)),
    reply
      ? replyPart(reply, name, [duration(reply.seconds), nestedUsage(answer?.within)].filter(Boolean).join(" · "))
      : null,
    streamed && !reply
      ? section("Reply", block(streamed, { name, kind: "streamed" }), { kind: "reply", aside: "incomplete" })
      : null,
  ];
}

/**
 * @param {ReportedRecord} record
 * @param {string} name
 * @returns {HTMLElement | null}
 */
function noticePart(record, name) {
  return section("Notice", block(record.text ?? "", { name }), { kind: "notice", aside: record.news ?? "" });
}

/**
 * Return the usage of nested runs, such as "nested runs: 2 model calls".
 * @param {Record<string, number> | undefined} within
 * @returns {string}
 */
function nestedUsage(within) {
  const counts = [
    ["model_calls", "model call"],
    ["tool_calls", "tool call"],
  ].flatMap(([key, word]) => (within?.[key] ? plural(within[key], word) : []));
  return counts.length ? `nested runs: ${counts.join(", ")}` : "";
}

/**
 * Show the calls of one request below each other, each with a bar from its start to its end; `first` is the first's index.
 * @param {CallGroup} request
 * @param {number} first
 * @returns {HTMLElement | null}
 */
function callBars(request, first) {
  const times = request.calls.map(timesOf);
  const known = times.filter(Boolean);
  const began = Math.min(...known.map((one) => one.began));
  const long = spanOf(request) || 1;
  const failures = request.calls.filter(({ reply }) => isFailure(reply)).length;
  const lines = request.calls.map(({ effect, reply }, index) => {
    const filled = element("span", { "data-bar": String(first + index) });
    const time = times[index];
    if (time) {
      filled.style.marginInlineStart = `${((time.began - began) / long) * 100}%`;
      filled.style.width = `${Math.max((time.seconds / long) * 100, 0.5)}%`;
    }
    if (isFailure(reply)) filled.className = "full";
    const line = element(
      "button",
      { class: "bar", type: "button", "data-call": first + index },
      span("label", effectText({ effect, reply })),
      element("span", { class: "count" }, time ? duration(time.seconds) : "no reply yet"),
      element("span", { class: "track" }, filled),
    );
    line.addEventListener("click", () => selectCall(first + index));
    return line;
  });
  const wrong = failures ? `, ${number(failures)} of ${number(request.calls.length)} failed` : "";
  const title = `${plural(request.calls.length, "call")} ${request.atOnce ? "at once" : "in turn"}${wrong}`;
  return section(title, element("div", { class: "bars together" }, ...lines), { aside: duration(spanOf(request)) });
}

/**
 * @param {EffectData} effect
 * @param {string} name
 * @returns {HTMLElement | null}
 */
function effectPart(effect, name) {
  if (asksModel(effect)) return modelPart(effect, name);
  if (effect.tool !== undefined)
    return section("Called", [span("tool", effect.tool), dataView(effect.tool_input, name)], { kind: "tools" });
  if (effect.question !== undefined)
    return section("Asked a person", block(effect.question ?? "", { name }), { kind: "person" });
  return section(
    `Requested: ${visible(effect.effect ?? "")}`,
    effect.value === undefined ? element("p", { class: "faint" }, "no further data") : dataView(effect.value, name),
    { kind: "effect" },
  );
}

/**
 * @param {ReplyData} reply
 * @param {string} name
 * @param {string} seconds
 * @returns {HTMLElement | null}
 */
function replyPart(reply, name, seconds) {
  if (reply.observation !== undefined) {
    const failed = isFailure(reply);
    const contents = [dataView(reply.observation, name), tracebackPart(reply.traceback, name)];
    return section("Observation", contents.filter(Boolean), {
      kind: failed ? "failed" : "reply",
      aside: [visible(reply.tool ?? ""), reply.status, visible(reply.error ?? ""), seconds].filter(Boolean).join(" · "),
    });
  }
  if (reply.content === undefined)
    return section("Reply", dataView(reply.value, name), { kind: "reply", aside: seconds });
  const cached = reply.cached_tokens ? `, ${number(reply.cached_tokens)} cached` : "";
  const tokens =
    reply.prompt_tokens || reply.completion_tokens
      ? `${number(reply.prompt_tokens)} + ${number(reply.completion_tokens)} tokens${cached}`
      : "";
  const calls = toolCalls(reply.tool_calls ?? [], name);
  const finish = cutReplyText(reply) || visible(reply.finish_reason ?? "");
  const aside = [seconds, tokens, finish === "stop" ? "" : finish];
  const { reasoning } = reply;
  const thoughts = reasoning
    ? collapsible(
        `reasoning, ${number(characters(reasoning))} characters`,
        `${name} reasoning`,
        () => block(reasoning, { name: `${name} reasoning text` }),
      )
    : null;
  return section(
    "Reply",
    [thoughts, reply.content || !calls.length ? block(reply.content, { name }) : null, ...calls].filter(Boolean),
    { kind: "reply", aside: aside.filter(Boolean).join(" · ") },
  );
}
