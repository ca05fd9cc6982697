"use strict";
const tables = [...document.querySelectorAll("details")];
const search = document.querySelector(".search");
const input = search.querySelector("input");
const found = document.getElementById("found");
const links = new Map([...document.querySelectorAll("tr[data-table]")].map(row => [row.dataset.table, row]));
const columns = new Map(tables.map(t => [t, [...t.querySelectorAll("tr")].filter(row => !row.querySelector("th"))]));
const texts = new Map([...columns].flatMap(([t, rows]) => rows.map(row => [row, (t.id + " " + row.textContent).toLowerCase()])));
const mostOpen = 20; // a search opens at most this many tables

// Shows the tables whose names have all typed words. Of the other tables, it shows only the columns that have all words.
function filter() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = text => words.every(word => text.includes(word));
  let shown = 0;
  for (const t of tables) {
    const named = has(t.id.toLowerCase());
    for (const row of columns.get(t)) row.hidden = !named && !has(texts.get(row));
    t.hidden = !named && columns.get(t).every(row => row.hidden);
    links.get(t.id).hidden = t.hidden;
    if (words.length > 0) t.open = !t.hidden && shown < mostOpen;
    if (!t.hidden) shown++;
  }
  found.textContent = words.length > 0 ? shown + (shown === 1 ? " table" : " tables") : "";
}

// Opens what the address names: a table, or a search such as #search=lead.
function follow() {
  const name = decodeURIComponent(location.hash.slice(1));
  if (name.startsWith("search=")) {
    input.value = name.slice("search=".length);
    filter();
    return;
  }
  const t = document.getElementById(name);
  if (t && t.tagName === "DETAILS") {
    t.open = true;
    t.scrollIntoView();
  }
}

let timer;
input.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(filter, 100);
});
search.addEventListener("submit", event => {
  event.preventDefault();
  location.hash = "search=" + encodeURIComponent(input.value);
});
document.getElementById("open").addEventListener("click", () => tables.forEach(t => { t.open = true; }));
document.getElementById("close").addEventListener("click", () => tables.forEach(t => { t.open = false; }));
addEventListener("hashchange", follow);
search.hidden = false;
follow();
