package board_test

// flaws is a script that lists the faults of a page. Such faults make a page hard to use for people with low vision,
// without a mouse, or with a small screen.
const flaws = `(() => {
  const found = [];
  const shown = (el) => { const b = el.getBoundingClientRect(), s = getComputedStyle(el); return b.width > 1 && b.height > 1 && s.visibility !== "hidden" && s.display !== "none"; };
  const name = (el) => (el.getAttribute("aria-label") || (el.getAttribute("aria-labelledby") || "").split(" ").map((i) => document.getElementById(i)?.textContent || "").join(" ") || el.textContent || el.getAttribute("alt") || el.title || "").trim();
  const tell = (el) => el.outerHTML.slice(0, 120);

  if (document.documentElement.scrollWidth > innerWidth) found.push("the page scrolls sideways: " + document.documentElement.scrollWidth + " > " + innerWidth + " " + [...document.querySelectorAll("main *")].filter((el) => el.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(tell).join(" | "));
  for (const el of document.querySelectorAll("main .badge")) { // a badge must not be cut off or overlap
    const b = el.getBoundingClientRect(), c = el.parentElement.getBoundingClientRect();
    if (b.width > 0 && b.right > c.right + 1) found.push("sticks out: " + tell(el));
  }
  if (!document.documentElement.lang) found.push("no language");
  for (const one of ["header.top", "main#main", "h1", "footer"]) if (document.querySelectorAll(one).length !== 1) found.push(one + ": " + document.querySelectorAll(one).length);
  let level = 0;
  for (const h of document.querySelectorAll("h1,h2,h3,h4")) { const n = +h.tagName[1]; if (n > level + 1) found.push("heading skips a level: " + tell(h)); level = n; }
  const ids = new Set();
  for (const el of document.querySelectorAll("[id]")) { if (ids.has(el.id)) found.push("id twice: " + el.id); ids.add(el.id); }
  for (const el of document.querySelectorAll("a[href], button, summary")) if (!name(el)) found.push("no name: " + tell(el));
  for (const el of document.querySelectorAll("input:not([type=hidden]), select, textarea")) if (!el.labels.length && !el.getAttribute("aria-label")) found.push("no label: " + tell(el));
  for (const el of document.querySelectorAll("table:not(.uplot *)")) if (!el.caption || [...el.querySelectorAll("th")].some((h) => !h.scope)) found.push("table without caption or scope: " + tell(el));
  for (const el of document.querySelectorAll("svg")) if (!el.querySelector("title") || !name(el)) found.push("picture without words: " + tell(el));
  for (const el of document.querySelectorAll("nav, section:not([class*=narrow])")) if (!name(el)) found.push("part without a name: " + tell(el));
  for (const el of document.querySelectorAll("[style], style, script:not([src])")) if (!el.closest(".uplot")) found.push("inline: " + tell(el));

  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = (c) => { const [r, g, b] = c.map((x) => { x /= 255; return x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const ground = (el) => { for (; el; el = el.parentElement) { const c = parse(getComputedStyle(el).backgroundColor); if (c[3] > .99) return c; } return [255, 255, 255, 1]; };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let n; (n = texts.nextNode());) {
    const el = n.parentElement;
    if (!n.data.trim() || !shown(el) || el.closest(".unseen, .skip, noscript, svg")) continue;
    const [a, b] = [light(parse(getComputedStyle(el).color)), light(ground(el))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    const what = el.tagName + "." + el.className;
    if (contrast < 4.5 && !seen.has(what)) { seen.add(what); found.push("contrast " + contrast.toFixed(2) + ": " + tell(el)); }
  }
  return found;
})()`
