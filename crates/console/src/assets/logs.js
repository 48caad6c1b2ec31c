// Puts lines of logs behind those that are there, keeps the end in sight, and stands still where somebody wants it to.
// Without it the page shows the last lines, and newer ones when it is loaded again.
"use strict";
{
  const lines = document.getElementById("lines");
  const pause = document.getElementById("pause");
  const end = document.getElementById("end");
  // The oldest are dropped.
  const MOST = Number(lines?.dataset.most);
  // Who is so near to the end wants to stay there.
  const NEAR = 24;
  // The newest time of each pod. Times are texts of one width.
  const newest = new Map();
  // Those of the moment when the connection was made, since when its lines begin with some that are here.
  let known = new Map();
  // Pods of which no line has come since then.
  const silent = new Set();
  let isFirst = true;
  let isAtEnd = true;
  let held = [];
  let isHeld = false;
  // More came than can be held.
  let isCut = false;

  function remember({ dataset: { pod, at } }) {
    if (at && (newest.get(pod) ?? "") < at) newest.set(pod, at);
  }

  function note(text) {
    const gap = document.createElement("p");
    gap.className = "gap";
    gap.textContent = text;
    return gap;
  }

  // Those that are not here yet.
  function fresh(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    const all = [];
    for (const line of [...template.content.children]) {
      const { pod, at } = line.dataset;
      const isKnown = at && at <= (known.get(pod) ?? "");
      if (at && silent.delete(pod) && !isKnown) all.push(note("Lines may be missing here: the page was not live"));
      if (isKnown) continue;
      remember(line);
      all.push(line);
    }
    return all;
  }

  function append(all) {
    lines.append(...all.slice(-MOST));
    for (let more = lines.childElementCount - MOST; more > 0; more--) lines.firstElementChild.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }

  function tellHeld() {
    pause.setAttribute("aria-pressed", isHeld);
    pause.textContent = isHeld ? "Paused" + (held.length ? ": " + held.length + " more lines" : "") : "Pause";
  }

  if (lines) {
    pause.hidden = false;
    for (const line of lines.children) remember(line);
    lines.scrollTop = lines.scrollHeight;

    document.addEventListener("follow", ({ detail: source }) => {
      known = new Map(newest);
      silent.clear();
      if (!isFirst) for (const pod of newest.keys()) silent.add(pod);
      isFirst = false;
      // The browser makes a connection anew by itself, too.
      source.addEventListener("error", () => {
        known = new Map(newest);
        for (const pod of newest.keys()) silent.add(pod);
      });
      source.addEventListener("lines", (event) => {
        const all = fresh(JSON.parse(event.data));
        if (!isHeld) return append(all);
        isCut ||= held.length + all.length > MOST;
        held = held.concat(all).slice(-MOST);
        tellHeld();
      });
    });

    lines.addEventListener("scroll", () => {
      isAtEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < NEAR;
      end.hidden = isAtEnd;
    });
    end.addEventListener("click", () => {
      lines.scrollTop = lines.scrollHeight;
      lines.focus();
    });
    pause.addEventListener("click", () => {
      isHeld = !isHeld;
      if (!isHeld) {
        if (isCut) held[0] = note("Lines are missing here: only the newest were kept while paused");
        append(held.splice(0));
        isCut = false;
      }
      tellHeld();
    });
  }
}
