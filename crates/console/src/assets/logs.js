// Appends lines to the log, keeps its end in view, and can be paused. Without this script, the page shows the last
// lines, and newer ones when it is reloaded.
"use strict";
{
  const lines = document.getElementById("lines");
  const pause = document.getElementById("pause");
  const end = document.getElementById("end");
  // Maximum number of lines. The oldest are dropped.
  const MOST = Number(lines?.dataset.most);
  // A view that is this near to the end stays there.
  const NEAR = 24;
  // The newest time of each pod. Times are texts of fixed width.
  const newest = new Map();
  // The same when the connection was made. The first lines after that may be known.
  let known = new Map();
  // Pods without a line since then.
  const silent = new Set();
  let isFirst = true;
  let isAtEnd = true;
  let held = [];
  let isHeld = false;
  // Whether more lines came than can be kept.
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

  // Returns the lines that are not known yet.
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
      // The browser reconnects by itself, too.
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
