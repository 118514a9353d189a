// What an agent decided, in the data of outcomes, which of other machines may be anything.

/**
 * Return the actions in the data of an outcome, or none.
 * @param {any} value
 * @returns {StepData[]}
 */
export function actionsOf(value) {
  const actions = value?.actions;
  return Array.isArray(actions) && actions.every((one) => typeof one?.tool === "string") ? actions : [];
}

/**
 * Return the data of an outcome without the log of the actions or the answer, which repeats the reply of the model.
 * @param {any} value
 * @returns {any}
 */
export function withoutLog(value) {
  const actions = actionsOf(value);
  if (actions.length) return { ...value, actions: actions.map(leaveOutLog) };
  return value?.return_values === undefined ? value : leaveOutLog(value);
}

/**
 * @param {any} value
 * @returns {any}
 */
function leaveOutLog({ log: _, ...others }) {
  return others;
}
