// The messages of a prompt: one, several as a summary, and the difference between those of two prompts.

import { diffLists } from "../base/diff.js";
import { differenceBlock } from "../base/difference.js";
import { block, collapsible, dataView, element, span } from "../base/dom.js";
import { characters, number, plural, visible } from "../base/text.js";
import { wholeContent } from "../run/prompts.js";
import { messageKey, messageText, sizeOf, unnamedImages } from "../run/requests.js";

/**
 * A part of an alignment: messages that both prompts have, or one that was removed, added or changed.
 * @typedef {(
 *   { kind: "same", messages: Message[] }
 *   | { kind: "del" | "ins", message: Message }
 *   | { kind: "changed", message: Message, before: Message }
 * )} Aligned
 */

// The length of a common beginning of two texts above which it is a summary.
const LONG_BEGINNING = 200;
// The parts of an alignment that are shown at first.
const MOST_SHOWN = 100;

/**
 * Show a message; `before` is the message that it continues, whose text is then a summary.
 *
 * @param {Message} message
 * @param {string} name
 * @param {{ kind?: string, before?: Message | null }} [options]
 * @returns {HTMLDivElement}
 */
export function messagePart(message, name, { kind = "", before = null } = {}) {
  const content = wholeContent(message);
  const shared = before ? commonLength(wholeContent(before), content) : 0;
  const folded = shared > LONG_BEGINNING ? shared : 0;
  const beginning = content.slice(0, folded);
  return element(
    "div",
    { class: `message ${kind}` },
    roleLine(message, kind),
    folded
      ? collapsible(`${plural(characters(beginning), "character")} as before`, `${name} start`, () =>
          block(beginning, { name: `${name} earlier` }),
        )
      : null,
    content.length > folded ? block(content.slice(folded), { name }) : null,
    ...unnamedImages(message).map((label) => element("div", {}, visible(label))),
    ...toolCalls(message.tool_calls ?? [], name),
  );
}

/**
 * @param {Message} message
 * @param {string} kind
 * @returns {HTMLDivElement}
 */
function roleLine(message, kind) {
  const words = { ins: "added", del: "removed", changed: "changed" }[kind];
  const facts = [message.call_id ? visible(message.call_id) : "", plural(sizeOf([message]), "character"), words];
  return element(
    "div",
    { class: "role" },
    element("b", {}, visible(message.role ?? "")),
    ` · ${facts.filter(Boolean).join(" · ")}`,
  );
}

/**
 * @param {CallData[]} calls
 * @param {string} name
 * @returns {HTMLDivElement[]}
 */
export function toolCalls(calls, name) {
  return calls.map((call, index) => {
    const given = dataView(call.arguments, `${name} call ${index}`);
    return element("div", { class: "call" }, span("tool", call.name), given);
  });
}

/**
 * Show messages as one summary: their number, such as "40 earlier messages", and their characters.
 *
 * @param {Message[]} messages
 * @param {string} adjective
 * @param {string} name
 * @param {{ open?: boolean }} [options]
 * @returns {HTMLDetailsElement}
 */
export function foldedMessages(messages, adjective, name, { open } = {}) {
  const title = `${plural(messages.length, `${adjective} message`)} · ${plural(sizeOf(messages), "character")}`;
  const make = () => element("div", {}, ...messages.map((one, index) => messagePart(one, `${name} ${index}`)));
  return collapsible(title, name, make, { open });
}

/**
 * Return the length of the common beginning of two texts, which ends between two characters.
 *
 * @param {string} one
 * @param {string} other
 * @returns {number}
 */
function commonLength(one, other) {
  const shorter = Math.min(one.length, other.length);
  let length = 0;
  while (length < shorter && one[length] === other[length]) length += 1;
  return /[\ud800-\udbff]/.test(one[length - 1] ?? "") ? length - 1 : length;
}

/**
 * Align two lists of messages: those that both have, and those that were removed and added; neighbours of one role are
 * one changed message.
 *
 * @param {Message[]} before
 * @param {Message[]} after
 * @returns {Aligned[]}
 */
export function alignMessages(before, after) {
  // Requests share the messages that the later one kept.
  let shared = 0;
  while (shared < before.length && before[shared] === after[shared]) shared += 1;
  const [left, right] = [before.slice(shared), after.slice(shared)];
  const parts = diffLists(left.map(messageKey), right.map(messageKey)) ?? [
    { kind: "del", items: left },
    { kind: "ins", items: right },
  ];
  /** @type {Aligned[]} */
  const aligned = [];
  const same = after.slice(0, shared);
  let [x, y] = [0, 0];
  parts.forEach(({ kind, items }, index) => {
    if (kind === "same") {
      const messages = right.slice(y, y + items.length);
      if (aligned.length) aligned.push({ kind, messages });
      else same.push(...messages);
      [x, y] = [x + items.length, y + items.length];
    } else if (kind === "del") {
      const added = parts[index + 1]?.kind === "ins" ? parts[index + 1].items.length : 0;
      aligned.push(...pairMessages(left.slice(x, x + items.length), right.slice(y, y + added)));
      [x, y] = [x + items.length, y + added];
    } else if (parts[index - 1]?.kind !== "del") {
      aligned.push(...pairMessages([], right.slice(y, y + items.length)));
      y += items.length;
    }
  });
  return same.length ? [{ kind: "same", messages: same }, ...aligned] : aligned;
}

/**
 * Pair removed and added messages of the same role, in their order.
 *
 * @param {Message[]} removed
 * @param {Message[]} added
 * @returns {Aligned[]}
 */
function pairMessages(removed, added) {
  /** @type {Aligned[]} */
  const paired = [];
  const left = [...removed];
  for (const message of added) {
    const at = left.findIndex((one) => one.role === message.role);
    if (at < 0) paired.push({ kind: "ins", message });
    else {
      for (const one of left.slice(0, at)) paired.push({ kind: "del", message: one });
      paired.push({ kind: "changed", before: left[at], message });
      left.splice(0, at + 1);
    }
  }
  for (const message of left) paired.push({ kind: "del", message });
  return paired;
}

/**
 * Show the difference between the messages of two prompts.
 *
 * @param {Message[]} before
 * @param {Message[]} after
 * @param {string} name
 * @returns {HTMLElement[]}
 */
export function messagesDifference(before, after, name) {
  return shownParts(alignMessages(before, after), name, (part, own) => {
    if (part.kind === "same") return foldedMessages(part.messages, "equal", own);
    if (part.kind !== "changed") return element(part.kind, {}, messagePart(part.message, own, { kind: part.kind }));
    return element(
      "div",
      { class: "message changed" },
      roleLine(part.message, "changed"),
      differenceBlock(messageText(part.before), messageText(part.message)),
    );
  });
}

/**
 * Show the first parts of an alignment, and the others as one summary.
 *
 * @param {Aligned[]} aligned
 * @param {string} name
 * @param {(part: Aligned, name: string) => HTMLElement | null} show
 * @returns {HTMLElement[]}
 */
export function shownParts(aligned, name, show) {
  /** @type {(parts: Aligned[], from: number) => HTMLElement[]} */
  const made = (parts, from) =>
    parts.map((part, index) => show(part, `${name} ${from + index}`)).filter((one) => one !== null);
  const others = aligned.slice(MOST_SHOWN);
  if (!others.length) return made(aligned, 0);
  const rest = collapsible(`${number(others.length)} more`, `${name} more`, () =>
    element("div", {}, ...made(others, MOST_SHOWN)),
  );
  return [...made(aligned.slice(0, MOST_SHOWN), 0), rest];
}
