// A request to a model: what is new in its prompt, its tools and parameters, or its difference from another request.

import { differenceBlock } from "../base/difference.js";
import { block, collapsible, dataView, element, isEmpty, span } from "../base/dom.js";
import { plural } from "../base/text.js";
import { view } from "../base/view.js";
import { writeAddress } from "../controls/address.js";
import { requestOf } from "../run/prompts.js";
import { replyTo, requestBefore, requestName, requestNamed, sizeOf } from "../run/requests.js";
import { run } from "../run/run.js";
import { copyButtons } from "./copying.js";
import { alignMessages, foldedMessages, messagePart, messagesDifference, shownParts } from "./messages.js";
import { holds, section, stepLink } from "./parts.js";

// The length of instructions above which they are a summary.
const LONG_INSTRUCTIONS = 600;

/**
 * @param {ModelEffect} effect
 * @param {string} name
 * @returns {HTMLElement | null}
 */
export function modelPart(effect, name) {
  const { messages } = requestOf(effect);
  const body = element("div", { class: "prompt" });
  const fill = () => {
    const other = requestNamed(view.against, effect);
    body.replaceChildren(...(other ? differenceParts(other, effect, name) : newParts(effect, name)));
  };
  fill();
  const tokens = replyTo(effect)?.prompt_tokens;
  const sizes = [
    plural(messages.length, "message"),
    plural(sizeOf(messages), "character"),
    tokens ? plural(tokens, "token") : "",
  ];
  const tools = element("div", { class: "copies" }, ...copyButtons(effect), againstMenu(effect, fill) ?? "");
  return section("Asked the model", [tools, settingsPart(effect, name), body].filter(Boolean), {
    kind: "model",
    aside: sizes.filter(Boolean).join(" · "),
  });
}

/**
 * A menu of the requests that this one can be compared with, if there are any.
 *
 * @param {ModelEffect} effect
 * @param {() => void} fill
 * @returns {HTMLSelectElement | null}
 */
function againstMenu(effect, fill) {
  const others = run.requests.filter((one) => one !== effect);
  if (!others.length) return null;
  const before = requestBefore(effect);
  const compared = requestNamed(view.against, effect);
  const choice = (/** @type {ModelEffect} */ one) => {
    const which = one === before ? ", the one before" : one === run.requests[0] ? ", the first" : "";
    const value = one === before ? "before" : requestName(one);
    return element("option", { value, selected: one === compared }, `against step ${requestName(one)}${which}`);
  };
  const menu = element(
    "select",
    { class: "against", "aria-label": "compare this prompt with" },
    element("option", { value: "", selected: !compared }, "what is new"),
    ...others.map(choice),
  );
  menu.addEventListener("change", () => {
    view.against = menu.value;
    fill();
    writeAddress();
  });
  return menu;
}

/**
 * Show the messages that the request before, or the conversation before this run's question, does not have.
 *
 * @param {ModelEffect} effect
 * @param {string} name
 * @returns {HTMLElement[]}
 */
function newParts(effect, name) {
  const { messages } = requestOf(effect);
  const before = requestBefore(effect);
  if (!before) return firstParts(messages, name);
  const aligned = alignMessages(requestOf(before).messages, messages);
  const removed = aligned.filter(({ kind }) => kind === "del").length;
  const parts = shownParts(aligned, name, (part, own) => {
    if (part.kind === "del") return null;
    if (part.kind === "same") return foldedMessages(part.messages, "earlier", own);
    return messagePart(part.message, own, { kind: "new", before: part.kind === "changed" ? part.before : null });
  });
  const note = removed
    ? element(
        "p",
        { class: "faint" },
        `${plural(removed, "message")} of `,
        stepLink(requestOf(before).position),
        " left out",
      )
    : null;
  return note ? [note, ...parts] : parts;
}

/**
 * Show a first request: the instructions, the conversation before the question as a summary, and the question.
 *
 * @param {Message[]} messages
 * @param {string} name
 * @returns {HTMLElement[]}
 */
function firstParts(messages, name) {
  const start = Math.max(
    messages.findIndex((one) => one.role !== "system"),
    0,
  );
  const asked = messages.findLastIndex((one) => one.role === "user");
  const question = Math.max(asked, start);
  const system = messages.slice(0, start);
  const earlier = messages.slice(start, question);
  const folds = system.length > 0 && (earlier.length > 0 || sizeOf(system) > LONG_INSTRUCTIONS);
  const shown = folds ? messages.slice(question) : [...system, ...messages.slice(question)];
  return [
    folds ? foldedMessages(system, "system", `${name} system`, { open: holds(system) }) : null,
    earlier.length ? foldedMessages(earlier, "earlier", `${name} earlier`, { open: holds(earlier) }) : null,
    ...shown.map((one, index) => messagePart(one, `${name} ${index}`)),
  ].filter(Boolean);
}

/**
 * Show the difference between two requests: their tools and parameters, and their messages.
 *
 * @param {ModelEffect} other
 * @param {ModelEffect} effect
 * @param {string} name
 * @returns {HTMLElement[]}
 */
function differenceParts(other, effect, name) {
  const [before, after] = [requestOf(other), requestOf(effect)];
  const own = `${name} against ${requestName(other)}`;
  const parts = messagesDifference(before.messages, after.messages, own);
  const settings = [before.settings, after.settings].map((one) => JSON.stringify(one, null, 2));
  if (settings[0] !== settings[1])
    parts.unshift(
      element(
        "div",
        { class: "message changed" },
        element("div", { class: "role" }, element("b", {}, "tools and parameters"), " · changed"),
        differenceBlock(settings[0], settings[1]),
      ),
    );
  const legend = element(
    "p",
    { class: "faint only" },
    element("del", {}, "only in "),
    stepLink(before.position),
    element("ins", {}, "only here"),
  );
  return [legend, ...parts];
}

/**
 * Show the tools and the parameters of a request as a summary, such as "3 tools, 2 parameters".
 *
 * @param {ModelEffect} effect
 * @param {string} name
 * @returns {HTMLDetailsElement | null}
 */
function settingsPart(effect, name) {
  const { tools = [], ...others } = requestOf(effect).settings;
  const parameters = { ...run.start.parameters };
  for (const [key, value] of Object.entries(others))
    if (!isEmpty(value) && !(key === "tool_choice" && value === "auto")) parameters[key] = value;
  const count = Object.keys(parameters).length;
  const title = [tools.length ? plural(tools.length, "tool") : "", count ? plural(count, "parameter") : ""];
  if (!tools.length && !count) return null;
  return collapsible(title.filter(Boolean).join(", "), `${name} settings`, () =>
    element(
      "div",
      { class: "settings" },
      count ? dataView(parameters, `${name} parameters`) : null,
      ...tools.map((/** @type {{ name: string }} */ tool) => toolPart(tool, `${name} ${tool.name}`)),
    ),
  );
}

/**
 * Show the definition of a tool; its schema is made on demand.
 *
 * @param {{ name: string, description?: string, parameters?: object }} tool
 * @param {string} name
 * @returns {HTMLDivElement}
 */
export function toolPart(tool, name) {
  return element(
    "div",
    { class: "definition" },
    span("tool", tool.name),
    tool.description ? span("described", tool.description) : null,
    isEmpty(tool.parameters)
      ? null
      : collapsible("schema", `${name} schema`, () =>
          block(JSON.stringify(tool.parameters, null, 2), { name: `${name} schema text` }),
        ),
  );
}
