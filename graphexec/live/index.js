// Reload the list of runs when it has changed, unless an answer is being written.
const { state } = document.body.dataset;
let written = false;
addEventListener("input", () => {
  written = true;
});
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok || (await answer.text()).includes(state)) return;
    if (written) document.getElementById("changed")?.removeAttribute("hidden");
    else location.replace(location.pathname + location.search.replace(/[?&]answered=\w*/, ""));
  } catch {
    // The server is gone, or will be there again.
  }
}, 2000);
