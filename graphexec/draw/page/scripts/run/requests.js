// The requests of a run to models: their messages, names and sizes, and which of them go together.

import { characters } from "../base/text.js";
import { requestsOf } from "./calls.js";
import { prompts, wholeContent } from "./prompts.js";
import { run } from "./run.js";

// Return a string that equal messages have in common.
export function messageKey(message) {
  const { role, call_id: call, tool_calls: calls, images } = message;
  return JSON.stringify([role, wholeContent(message), call, calls, images]);
}

// Return the images of a message whose labels are not in its text: those of an observation are.
export function unnamedImages(message) {
  const content = message.images?.length ? wholeContent(message) : "";
  return (message.images ?? []).filter((label) => !content.includes(label));
}

// Return the text of a message, with its images and calls.
export function messageText(message) {
  const calls = (message.tool_calls ?? []).map((call) => `${call.name}(${call.arguments})`);
  return [wholeContent(message), ...unnamedImages(message), ...calls].filter(Boolean).join("\n");
}

// The sizes of messages, which many requests share.
const sizes = new WeakMap();

// Return the number of characters of some messages.
export function sizeOf(messages) {
  let sum = 0;
  for (const message of messages) {
    if (!sizes.has(message)) sizes.set(message, characters(messageText(message)));
    sum += sizes.get(message);
  }
  return sum;
}

// Return the last request before this one that the same node made, or null.
export function requestBefore(effect) {
  const { node, index } = prompts.get(effect);
  for (let at = index - 1; at >= 0; at -= 1) if (prompts.get(run.requests[at]).node === node) return run.requests[at];
  return null;
}

// Return the name of a request: its step, such as `7`, or `7.2` for the second request of that step.
export function requestName(effect) {
  const { position, index } = prompts.get(effect);
  let first = index;
  while (first > 0 && prompts.get(run.requests[first - 1]).position === position) first -= 1;
  return first < index ? `${position}.${index - first + 1}` : String(position);
}

// Return the request that the reader compares a request with: the one before, the first, or the one of a name.
export function requestNamed(name, effect) {
  if (!name) return null;
  if (name === "before") return requestBefore(effect);
  const found = name === "first" ? run.requests[0] : run.requests.find((one) => requestName(one) === name);
  return found === effect ? null : (found ?? null);
}

// Return the reply to a request, or null.
export function replyTo(effect) {
  const calls = requestsOf(run.visits[prompts.get(effect).position - 1]).flatMap((request) => request.calls);
  return calls.find((call) => call.effect === effect)?.reply ?? null;
}
