// One step: the node's input, its requests and replies, its outcome, and the usage of limits.

const detail = document.getElementById("detail");

// The parts of the state that the shown content depends on.
let shown = [];

// Replace the content only if it has changed, so that text that the reader has selected stays selected.
function showDetail(position, again) {
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
    pattern?.source,
  ];
  if (wanted.length === shown.length && wanted.every((one, index) => one === shown[index])) return;
  shown = wanted;
  const parts = visit ? visitParts(visit, position) : position > run.visits.length ? endParts() : startParts();
  detail.replaceChildren(...parts.filter(Boolean));
  detail.scrollTop = top;
}

function startParts() {
  const tools = run.start.tools ?? [];
  return [
    heading("start", "", "before step 1"),
    spentBars(run.visits[0]?.before ?? run.result?.spent),
    section("Input", run.start.input === undefined ? null : data(run.start.input, "input")),
    section(
      "Tools",
      tools.length ? element("p", { class: "chips" }, ...tools.map((tool) => span("chip", nameOf(tool)))) : null,
    ),
  ];
}

function visitParts(visit, position) {
  const iteration = visit.iteration ?? visit.iterations;
  const where = [
    `step ${number(position)}`,
    iteration ? `iteration ${number(iteration)}` : "",
    duration(secondsOf(visit)),
  ];
  const asks = visit.records.length > 0;
  return [
    heading(
      visit.node,
      looks.get(visit.node)?.look ?? "pure",
      where.filter(Boolean).join(" · "),
      looks.get(visit.node)?.lines?.[0],
    ),
    spentBars(visit.spent),
    givenPart(position, !asks),
    ...requestParts(visit, position),
    ...failureParts(visit, position),
    visit.moved ? outcome(visit, position, !asks) : waiting(),
    element("div", { class: "copies" }, copyButton("copy records", () => recordLines(visit))),
  ];
}

function heading(name, look, where, label) {
  return element(
    "div",
    { class: `heading ${look}` },
    element("h2", {}, span("", name)),
    label ? span("chip", label) : null,
    element("span", { class: "where" }, where),
  );
}

function section(title, content, { kind = "", aside = "" } = {}) {
  if (!content) return null;
  const contents = Array.isArray(content) ? content : [content];
  return element(
    "section",
    { class: `part ${kind}` },
    element("h3", {}, title, aside ? element("span", { class: "aside" }, aside) : null),
    ...contents,
  );
}

// The input of a visit: that of the run, or a link to the step before, whose outcome it is.
function givenPart(position, open) {
  const before = visitAt(position - 1)?.moved;
  if (before) {
    const title = `${visible(before.outcome)} from ${visible(before.node)}, `;
    return section("Input", element("p", { class: "faint" }, title, stepLink(position - 1)));
  }
  const value = run.start.input;
  if (isEmpty(value)) return null;
  const name = `${position} given`;
  return section(
    "Input",
    collapsible("input of the run", name, () => data(value, name), { open: open || small(value) }),
  );
}

function small(value) {
  return (JSON.stringify(value) ?? "").length < 160;
}

// Return whether a value contains a match of the search.
function holds(value) {
  const texts = [];
  gather(value, texts);
  return pattern !== null && pattern.test(texts.join("\n"));
}

function requestParts(visit, position) {
  const parts = [];
  let first = 0;
  for (const [index, request] of requestsOf(visit).entries()) {
    const name = `${position} ${index}`;
    parts.push(...request.notices.map((record, at) => notice(record, `${name} ${at}`)));
    if (request.calls.length > 1) parts.push(together(request, first));
    for (const [at, one] of request.calls.entries()) {
      const contents = callParts(one, `${name}.${one.member}`).filter(Boolean);
      parts.push(element("div", { class: "pair", "data-call": first + at }, ...contents));
    }
    first += request.calls.length;
  }
  return parts;
}

function callParts({ effect, notices, streamed, answer, reply }, name) {
  return [
    effect ? effectPart(effect, `${name} asked`) : null,
    ...notices.map((record, at) => notice(record, `${name} ${at}`)),
    reply ? replyPart(reply, name, [duration(reply.seconds), inner(answer.within)].filter(Boolean).join(" · ")) : null,
    streamed && !reply
      ? section("Reply", block(streamed, { name, kind: "streamed" }), { kind: "reply", aside: "incomplete" })
      : null,
  ];
}

function notice(record, name) {
  return section("Notice", block(record.text ?? "", { name }), { kind: "notice", aside: record.news ?? "" });
}

// The usage of nested runs.
function inner(within) {
  const counts = [
    ["model_calls", "model call"],
    ["tool_calls", "tool call"],
  ].filter(([key]) => within?.[key] > 0);
  return counts.length ? `nested runs: ${counts.map(([key, word]) => plural(within[key], word)).join(", ")}` : "";
}

// The calls of one request below each other, each with a bar from its start to its end; `first` is the first's index.
function together(request, first) {
  const times = request.calls.map(timesOf);
  const known = times.filter(Boolean);
  const began = Math.min(...known.map((one) => one.began));
  const long = spanOf(request) || 1;
  const failures = request.calls.filter(({ reply }) => reply?.status && reply.status !== "ok").length;
  const lines = request.calls.map(({ effect, reply }, index) => {
    const filled = element("span", { "data-bar": String(first + index) });
    if (times[index]) {
      filled.style.marginInlineStart = `${((times[index].began - began) / long) * 100}%`;
      filled.style.width = `${Math.max(((times[index].ended - times[index].began) / long) * 100, 0.5)}%`;
    }
    if (reply?.status && reply.status !== "ok") filled.className = "full";
    const one = effect ?? reply;
    const line = element(
      "button",
      { class: "bar", type: "button", "data-call": first + index },
      span("label", effect?.tool === undefined ? (one.effect ?? "") : `${one.tool}(${shortInput(effect.tool_input)})`),
      element("span", { class: "count" }, times[index] ? duration(times[index].seconds) : "no reply yet"),
      element("span", { class: "track" }, filled),
    );
    line.addEventListener("click", () => selectCall(first + index));
    return line;
  });
  const wrong = failures ? `, ${number(failures)} of ${number(request.calls.length)} failed` : "";
  const title = `${plural(request.calls.length, "call")} ${request.atOnce ? "at once" : "in turn"}${wrong}`;
  return section(title, element("div", { class: "bars together" }, ...lines), { aside: duration(spanOf(request)) });
}

function effectPart(effect, name) {
  if (effect.prompt) return section("Asked the model", promptPart(effect, name), { kind: "model" });
  if (effect.tool !== undefined)
    return section("Called", [span("tool", effect.tool), data(effect.tool_input, name)], { kind: "tools" });
  if (effect.question !== undefined)
    return section("Asked a person", block(effect.question ?? "", { name }), { kind: "person" });
  return section(
    `Requested: ${visible(effect.effect ?? "")}`,
    effect.value === undefined
      ? element("p", { class: "faint" }, "no further data")
      : data(effect.value, name),
    { kind: "effect" },
  );
}

function promptPart(effect, name) {
  const { kept, messages } = prompts.get(effect);
  const before = kept
    ? collapsible(`${plural(kept, "message")} as before`, `${name} before`, () =>
        element(
          "div",
          {},
          ...messages.slice(0, kept).map((one, index) => message(one, `${name} kept ${index}`, false)),
        ),
      )
    : null;
  return [
    copyButtons(effect),
    before,
    ...messages
      .slice(kept)
      .map((one, index) => message(one, `${name} ${index}`, kept > 0 || index > 0 || one.before !== null)),
  ].filter(Boolean);
}

function message(one, name, isNew) {
  const calls = toolCalls(one.tool_calls ?? [], name);
  // The text of an observation has the labels of its images.
  const images = (one.images ?? []).filter((label) => !`${earlier(one)}${one.content}`.includes(label));
  const start = one.before
    ? collapsible(`${number(one.kept)} characters as before`, `${name} start`, () =>
        block(earlier(one), { name: `${name} earlier` }),
      )
    : null;
  return element(
    "div",
    { class: `message ${one.before || isNew ? "new" : ""}` },
    element("span", { class: "role" }, visible(one.role ?? ""), one.call_id ? ` · ${visible(one.call_id)}` : ""),
    start,
    one.content ? block(one.content, { name }) : null,
    ...images.map((label) => element("div", {}, visible(label))),
    ...calls,
  );
}

function toolCalls(calls, name) {
  return calls.map((call, index) => {
    const given = data(call.arguments, `${name} call ${index}`);
    return element("div", { class: "call" }, span("tool", call.name), given);
  });
}

function replyPart(reply, name, seconds) {
  if (reply.observation !== undefined) {
    const failed = reply.status && reply.status !== "ok";
    const contents = [data(reply.observation, name), tracebackPart(reply.traceback, name)];
    return section("Observation", contents.filter(Boolean), {
      kind: failed ? "failed" : "reply",
      aside: [visible(reply.tool ?? ""), reply.status, visible(reply.error ?? ""), seconds].filter(Boolean).join(" · "),
    });
  }
  if (reply.content === undefined) return section("Reply", data(reply.value, name), { kind: "reply", aside: seconds });
  const cached = reply.cached_tokens ? `, ${number(reply.cached_tokens)} cached` : "";
  const tokens =
    reply.prompt_tokens || reply.completion_tokens
      ? `${number(reply.prompt_tokens)} + ${number(reply.completion_tokens)} tokens${cached}`
      : "";
  const calls = toolCalls(reply.tool_calls ?? [], name);
  const aside = [seconds, tokens, reply.finish_reason === "stop" ? "" : visible(reply.finish_reason ?? "")];
  const thoughts = reply.reasoning
    ? collapsible(`reasoning, ${number(characters(reply.reasoning))} characters`, `${name} reasoning`, () =>
        block(reply.reasoning, { name: `${name} reasoning text` }),
      )
    : null;
  return section(
    "Reply",
    [thoughts, reply.content || !calls.length ? block(reply.content, { name }) : null, ...calls].filter(Boolean),
    { kind: "reply", aside: aside.filter(Boolean).join(" · ") },
  );
}

function outcome(visit, position, open) {
  const { outcome: name, target, value } = visit.moved;
  const arrow = edgeOf(visit.moved);
  const line = element(
    "p",
    { class: "leads" },
    span("chip now", name),
    " → ",
    span(`target ${looks.get(target)?.look ?? "pure"}`, target),
    arrow !== undefined && picture.arrows[arrow].exhausts
      ? element("span", { class: "faint" }, " a limit is used up")
      : null,
  );
  return section(
    "Outcome",
    [
      line,
      isEmpty(value)
        ? null
        : collapsible("data", `${position} outcome`, () => data(withoutLog(value), `${position} outcome`), {
            open: open || small(value) || holds(value),
          }),
    ].filter(Boolean),
    { kind: "outcome" },
  );
}

// The log of an action repeats the reply, which is above.
function withoutLog(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  const { log: _, ...others } = value;
  const actions = others.actions?.map?.(({ log: _one, ...rest }) => rest);
  return actions ? { ...others, actions } : others;
}

function waiting() {
  const open = live && run.over === null;
  const text = run.result ? "The run ended here." : open ? "Waiting for the next record." : "The records end here.";
  return element("p", { class: "faint waiting" }, text);
}

function endParts() {
  const { status, output, limit, error, reason, steps, spent, unread } = run.result;
  return [
    heading(statusText(), `ending ${status}`, `after ${plural(run.visits.length, "step")}`),
    spentBars(spent?.iterations === undefined ? run.visits.at(-1)?.spent : spent),
    error ? errorPart(error, "error") : null,
    failedLinks(),
    ...stoppingParts(),
    section(
      status === "stopped" ? "Generated answer" : "Answer",
      output === null || output === undefined ? null : data(output, "answer"),
      { kind: "answer", aside: reason === "finished" || limit ? "" : visible(String(reason ?? "")) },
    ),
    section("Not read, since the model invented it", unread ? block(unread, { name: "unread" }) : null),
    section(
      "Steps",
      steps?.length
        ? collapsible(
            stepsTitle(steps),
            "steps",
            () =>
              element(
                "ol",
                { class: "done" },
                ...steps.slice(0, 200).map((step, index) => doneStep(step, index)),
                steps.length > 200
                  ? element("li", { class: "faint" }, `and ${number(steps.length - 200)} more; see the list of steps`)
                  : "",
              ),
            { open: steps.length <= 8 },
          )
        : null,
    ),
  ];
}

// Replies that could not be parsed are steps, but no tool calls.
function stepsTitle(steps) {
  const unread = steps.filter((step) => step.status === "parse_error").length;
  const calls = plural(steps.length - unread, "tool call");
  return unread ? `${calls}, ${plural(unread, "reply", "replies")} not parsed` : calls;
}

// Links to the steps that failed.
function failedLinks() {
  const positions = failedPositions();
  if (!positions.length) return null;
  const links = positions.slice(0, 50).flatMap((one, index) => [index ? ", " : "", stepLink(one)]);
  const more = positions.length > 50 ? [` and ${number(positions.length - 50)} more`] : [];
  return section(`${plural(positions.length, "step")} failed`, element("p", {}, ...links, ...more));
}

function doneStep(step, index) {
  const failed = step.status && step.status !== "ok";
  return element(
    "li",
    {},
    element("div", { class: "call" }, span("tool", step.tool), data(step.tool_input, `done ${index} input`, 1)),
    element("div", { class: failed ? "bad" : "" }, data(step.observation, `done ${index}`, 1)),
    step.unread ? element("div", { class: "faint" }, "not read: ", span("unread", inline(step.unread))) : null,
  );
}

function stopped(limit) {
  const wanted = limit.wanted > 1 ? `, and ${number(limit.wanted)} more were requested` : "";
  return `The limit of ${number(limit.value)} ${visible(String(limit.limit)).replaceAll("_", " ")} was reached (${number(limit.reached)} spent${wanted}).`;
}

function statusText() {
  const result = run.result;
  if (!result && live && run.silent) return "no sign of life";
  if (!result) return !live ? "not finished" : run.over === null ? "running" : "incomplete";
  if (result.status === "stopped")
    return `stopped by ${visible(String(result.limit?.limit ?? result.reason ?? "a limit")).replaceAll("_", " ")}`;
  return visible(String(result.status));
}
