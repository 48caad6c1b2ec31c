// Keeps a page live: replaces fragments by newer ones, and changes nothing else. Without this script, the page is
// complete, but shows changes only when it is reloaded.
"use strict";

const main = document.querySelector("main");
const link = document.getElementById("link");
const form = document.getElementById("filters");
// Time to reconnect before the page reports a lost connection.
const PATIENCE = 1500;
// Time between the last key and the search.
const PAUSE = 200;
let source;
let trouble = 0;

function say(text, state) {
  clearTimeout(trouble);
  trouble = 0;
  link.textContent = text;
  link.className = state;
}

// Makes `old` like `next`, and keeps every node that is the same: focus, selection and what is open stay.
function morph(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== Node.ELEMENT_NODE || old.nodeName !== next.nodeName) {
    old.replaceWith(next);
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const known = new Map([...old.children].filter((it) => it.id).map((it) => [it.id, it]));
  let place = old.firstChild;
  for (const child of [...next.childNodes]) {
    const same = child.id ? known.get(child.id) : place && !place.id ? place : null;
    if (!same) {
      old.insertBefore(child, place);
    } else {
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      morph(same, child);
    }
  }
  while (place) {
    const gone = place;
    place = place.nextSibling;
    gone.remove();
  }
}

// Also reports a connection that the server itself has lost.
function tell() {
  if (document.querySelector("#notes .lost")) say("Out of date", "lost");
  else say("Live", "live");
}

function show(fragments) {
  for (const [id, html] of Object.entries(fragments)) {
    const template = document.createElement("template");
    template.innerHTML = html;
    morph(document.getElementById(id), template.content.firstElementChild);
  }
}

function follow() {
  if (source) source.close();
  // A page with a form to fill in does not change by itself.
  if (document.hidden || !main.dataset.events) return;
  source = new EventSource(main.dataset.events + location.search);
  source.onopen = tell;
  document.dispatchEvent(new CustomEvent("follow", { detail: source }));
  source.addEventListener("view", (event) => {
    show(JSON.parse(event.data));
    tell();
  });
  source.onerror = () => {
    // The request was refused. The page that comes after a reload says why.
    if (source.readyState === EventSource.CLOSED) say("No longer live: reload the page", "lost");
    else trouble ||= setTimeout(say, PATIENCE, "Connection lost, reconnecting", "lost");
  };
}

// Browsers have few connections to one server: hidden tabs give theirs back.
document.addEventListener("visibilitychange", follow);
addEventListener("pagehide", () => source && source.close());
addEventListener("pageshow", (event) => event.persisted && follow());
// By then, the page's own script has run as well.
addEventListener("DOMContentLoaded", follow);

// The search follows the typing, and the address follows the search. Only the fleet has one.
let typing;
function search() {
  clearTimeout(typing);
  const fields = [...new FormData(form)].filter(([, value]) => value.trim());
  const query = new URLSearchParams(fields).toString();
  history.replaceState(null, "", query ? "/?" + query : "/");
  follow();
}
form?.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, PAUSE);
});
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});

document.addEventListener("keydown", (event) => {
  if (form && event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input")) {
    event.preventDefault();
    form.elements.q.select();
  }
});
