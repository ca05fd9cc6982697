// Updates the elements of a page that have the attribute data-live. Without this
// script the page is complete too, and reloads itself from time to time.
"use strict";

(() => {
  const page = document.body.dataset.follow;
  const light = document.getElementById("live");
  if (!page || !light) return;

  const restAfter = 1500; // minimum time between two requests
  const lookEvery = 30000; // ages and rates change even without an event
  let looking = false, again = false, timer = 0;

  const say = (state, words) => {
    light.hidden = false;
    if (light.dataset.state === state) return;
    light.dataset.state = state;
    light.textContent = words;
  };

  // The response is parsed as a separate document, so no text of it becomes
  // markup of this page, and no script in it runs.
  const fetchPage = () => new Promise((done, fail) => {
    const ask = new XMLHttpRequest();
    ask.open("GET", location.href);
    ask.responseType = "document";
    ask.timeout = 20000;
    ask.onload = () => ask.status === 200 && ask.responseXML ? done(ask) : fail(ask.status);
    ask.onerror = ask.ontimeout = () => fail(0);
    ask.send();
  });

  const busy = (part) => {
    const at = document.activeElement;
    return at && part.contains(at) && (at.matches("input, select, textarea") || part.querySelector("button:active"));
  };

  // After a replacement, the focused element is found again by its text and its URL.
  const placeOf = (part) => {
    const at = document.activeElement;
    if (!at || !part.contains(at) || !at.matches("a, button, summary, [tabindex]")) return null;
    const same = (el) => el.tagName === at.tagName && el.getAttribute("href") === at.getAttribute("href") && el.textContent === at.textContent;
    const nth = [...part.querySelectorAll(at.tagName)].filter(same).indexOf(at);
    return (fresh) => [...fresh.querySelectorAll(at.tagName)].filter(same)[nth];
  };

  const swap = (now) => {
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const fresh = now.getElementById(part.id);
      if (!fresh || busy(part) || fresh.isEqualNode(part)) continue;
      for (const open of part.querySelectorAll("details[open][id]")) {
        const other = [...fresh.querySelectorAll("details[id]")].find((d) => d.id === open.id);
        if (other) other.open = true;
      }
      const find = placeOf(part);
      const scrolled = [...part.querySelectorAll(".wide, .log")].map((el) => [el.scrollLeft, el.scrollTop]);
      const made = document.adoptNode(fresh);
      part.replaceWith(made);
      [...made.querySelectorAll(".wide, .log")].forEach((el, i) => {
        if (scrolled[i]) [el.scrollLeft, el.scrollTop] = scrolled[i];
      });
      const place = find && find(made);
      if (place) place.focus({ preventScroll: true });
    }
  };

  const look = async () => {
    if (looking || document.hidden) { again = true; return; }
    looking = true;
    again = false;
    clearTimeout(timer);
    try {
      const ask = await fetchPage();
      if (new URL(ask.responseURL).pathname !== location.pathname) { location.reload(); return; } // signed out
      swap(ask.responseXML);
    } catch (status) {
      if (status === 404) { location.reload(); return; }
    }
    setTimeout(() => {
      looking = false;
      if (again) look();
    }, restAfter);
    timer = setTimeout(look, lookEvery);
  };

  document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
  timer = setTimeout(look, lookEvery);

  const follow = () => {
    const events = new EventSource(page);
    events.onopen = () => { say("on", "live"); look(); };
    events.addEventListener("change", look);
    events.addEventListener("reset", look);
    events.onerror = () => {
      say("off", "not live");
      if (events.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
      setTimeout(follow, lookEvery);
    };
    addEventListener("pagehide", () => events.close(), { once: true });
  };
  follow();
  addEventListener("pageshow", (e) => { if (e.persisted) follow(); });
})();
