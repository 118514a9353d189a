// The requests of a run to models: their messages, names and sizes, and which of them go together.

import { characters } from "../base/text.js";
import { callsOf } from "./calls.js";
import { requestOf, wholeContent } from "./prompts.js";
import { run } from "./run.js";

/**
 * Return a string that equal messages have in common.
 *
 * @param {Message} message
 * @returns {string}
 */
export function messageKey(message) {
  const { role, call_id: call, tool_calls: calls, images } = message;
  return JSON.stringify([role, wholeContent(message), call, calls, images]);
}

/**
 * Return the images of a message whose labels are not in its text: those of an observation are.
 *
 * @param {Message} message
 * @returns {string[]}
 */
export function unnamedImages(message) {
  const content = message.images?.length ? wholeContent(message) : "";
  return (message.images ?? []).filter((label) => !content.includes(label));
}

/**
 * Return the text of a message, with its images and calls.
 *
 * @param {Message} message
 * @returns {string}
 */
export function messageText(message) {
  const calls = (message.tool_calls ?? []).map((call) => `${call.name}(${call.arguments})`);
  return [wholeContent(message), ...unnamedImages(message), ...calls].filter(Boolean).join("\n");
}

/**
 * The sizes of messages, which many requests share.
 * @type {WeakMap<Message, number>}
 */
const sizes = new WeakMap();

/**
 * Return the number of characters of some messages.
 *
 * @param {Message[]} messages
 * @returns {number}
 */
export function sizeOf(messages) {
  let sum = 0;
  for (const message of messages) {
    if (!sizes.has(message)) sizes.set(message, characters(messageText(message)));
    sum += sizes.get(message) ?? 0;
  }
  return sum;
}

/**
 * Return the last request before this one that the same node made, or null.
 *
 * @param {ModelEffect} effect
 * @returns {ModelEffect | null}
 */
export function requestBefore(effect) {
  const { node, index } = requestOf(effect);
  for (let at = index - 1; at >= 0; at -= 1) if (requestOf(run.requests[at]).node === node) return run.requests[at];
  return null;
}

/**
 * Return the name of a request: its step, such as `7`, or `7.2` for the second request of that step.
 *
 * @param {ModelEffect} effect
 * @returns {string}
 */
export function requestName(effect) {
  const { position, index } = requestOf(effect);
  let first = index;
  while (first > 0 && requestOf(run.requests[first - 1]).position === position) first -= 1;
  return first < index ? `${position}.${index - first + 1}` : String(position);
}

/**
 * Return the request that the reader compares a request with: the one before, or the one of a name.
 *
 * @param {string} name
 * @param {ModelEffect} effect
 * @returns {ModelEffect | null}
 */
export function requestNamed(name, effect) {
  if (!name) return null;
  if (name === "before") return requestBefore(effect);
  const found = run.requests.find((one) => requestName(one) === name);
  return found === effect ? null : (found ?? null);
}

/**
 * Return the reply to a request, or null.
 *
 * @param {ModelEffect} effect
 * @returns {ReplyData | null}
 */
export function replyTo(effect) {
  const calls = callsOf(run.visits[requestOf(effect).position - 1]);
  return calls.find((call) => call.effect === effect)?.reply ?? null;
}
