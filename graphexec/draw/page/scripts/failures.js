// What failed: replies, replies that could not be parsed, and exceptions; the steps that failed, and the way to them.

// Return the failures of a visit, each with its text and, if a call failed, its call.
function failuresOf(visit) {
  const found = [];
  for (const { calls } of requestsOf(visit))
    for (const call of calls) {
      const { reply } = call;
      if (reply?.status && reply.status !== "ok") found.push({ call, text: inline(reply.observation ?? "") });
    }
  for (const step of visit.moved?.steps ?? [])
    found.push({ call: null, text: `could not be parsed: ${inline(step.tool_input ?? step.observation ?? "")}` });
  if (visit.failure) found.push({ call: null, text: inline(messageOf(visit.failure.error)) });
  return found;
}

function hasFailed(visit) {
  visit.failed ??= failuresOf(visit).length > 0;
  return visit.failed;
}

function messageOf(error) {
  return error?.message || error?.type || "";
}

// Return the positions of the visits that failed.
function failedPositions() {
  const positions = [];
  for (const [index, visit] of run.visits.entries()) if (hasFailed(visit)) positions.push(index + 1);
  return positions;
}

// Return the names of the nodes that failed until a position.
function failedNodes(position) {
  return new Set(
    run.visits
      .slice(0, position)
      .filter(hasFailed)
      .map((visit) => visit.node),
  );
}

// Return a summary of the failures of a visit, such as "2 of 12 failed: ...".
function failureText(visit) {
  const failures = failuresOf(visit);
  const calls = requestsOf(visit).reduce((sum, request) => sum + request.calls.length, 0);
  const text = failures.map((failure) => failure.text).join(", ");
  return calls > 1 ? `${number(failures.length)} of ${number(calls)} failed: ${text}` : text;
}

// Show a mark on the slider for each failed step; many steps share a mark.
function showTicks() {
  const places = new Set(failedPositions().map((position) => Math.round((position / last()) * 400) / 4));
  const ticks = document.getElementById("ticks");
  if (ticks.childElementCount === places.size && ticks.dataset.last === String(last())) return;
  ticks.dataset.last = String(last());
  ticks.replaceChildren(
    ...[...places].map((place) => {
      const tick = element("span", { class: "tick" });
      tick.style.insetInlineStart = `${place}%`;
      return tick;
    }),
  );
}

// The parts of a step that show an exception, and replies that could not be parsed.
function failureParts(visit, position) {
  const parts = (visit.moved?.steps ?? []).flatMap((step, index) => [
    section("The reply could not be parsed", data(step.tool_input, `${position} parse ${index}`), { kind: "failed" }),
    section("Told the model", data(step.observation, `${position} told ${index}`), { kind: "failed" }),
  ]);
  if (visit.failure) parts.push(errorPart(visit.failure.error, `${position} error`, duration(visit.failure.seconds)));
  return parts;
}

function errorPart(error, name, aside = "") {
  const frames = tracebackPart(error.traceback, name);
  return section("Error", [block(messageOf(error), { name }), frames].filter(Boolean), {
    kind: "failed",
    aside: [visible(error.type ?? ""), aside].filter(Boolean).join(" · "),
  });
}

function tracebackPart(text, name) {
  if (!text) return null;
  return collapsible("traceback", `${name} traceback`, () => block(text, { name: `${name} frames` }), { open: true });
}
