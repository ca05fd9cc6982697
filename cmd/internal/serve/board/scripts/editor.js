// Turns a text area with the attribute data-schema into an SQL editor. The attribute has the dialect, and the names of
// tables and columns for completion. Without this script, the text area is used as it is.
import {autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap} from "@codemirror/autocomplete";
import {defaultKeymap, history, historyKeymap} from "@codemirror/commands";
import {MySQL, PostgreSQL, SQLite, StandardSQL, sql} from "@codemirror/lang-sql";
import {HighlightStyle, bracketMatching, syntaxHighlighting} from "@codemirror/language";
import {EditorState} from "@codemirror/state";
import {EditorView, drawSelection, highlightSpecialChars, keymap, lineNumbers, placeholder} from "@codemirror/view";
import {tags} from "@lezer/highlight";

const dialects = {Postgres: PostgreSQL, DuckDB: PostgreSQL, SQLite, MySQL};

// The colors are those of the page, in both schemes.
const theme = EditorView.theme({
  "&": {backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--idle-fill)", borderRadius: "7px", fontSize: "14px"},
  "&.cm-focused": {outline: "2px solid var(--focus)", outlineOffset: "1px"},
  ".cm-scroller": {fontFamily: 'ui-monospace, SFMono-Regular, "Cascadia Mono", Menlo, "Liberation Mono", monospace', minHeight: "9em", maxHeight: "50vh", overflow: "auto"},
  ".cm-content": {caretColor: "var(--ink)"},
  ".cm-cursor": {borderLeftColor: "var(--ink)"},
  ".cm-gutters": {backgroundColor: "var(--raised)", color: "var(--dim)", border: "none", borderRadius: "7px 0 0 7px"},
  ".cm-placeholder": {color: "var(--dim)"},
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {backgroundColor: "var(--busy-back) !important"},
  "&.cm-focused .cm-matchingBracket": {backgroundColor: "var(--idle-back)", outline: "1px solid var(--idle-fill)"},
  ".cm-tooltip": {backgroundColor: "var(--sheet)", color: "var(--ink)", border: "1px solid var(--line)"},
  ".cm-tooltip-autocomplete ul li[aria-selected]": {backgroundColor: "var(--brand)", color: "var(--on-brand)"},
});

const colors = HighlightStyle.define([
  {tag: tags.keyword, color: "var(--busy)", fontWeight: "600"},
  {tag: [tags.string, tags.special(tags.string)], color: "var(--ok)"},
  {tag: [tags.number, tags.bool, tags.null], color: "var(--warn)"},
  {tag: tags.comment, color: "var(--dim)", fontStyle: "italic"},
  {tag: tags.typeName, color: "var(--link)"},
]);

const edit = (area) => {
  const {dialect, tables} = JSON.parse(area.dataset.schema);
  const save = (view) => { area.value = view.state.doc.toString(); };
  const run = (view) => {
    save(view);
    area.form.requestSubmit();
    return true;
  };
  // In a shadow root, CodeMirror adds its styles as objects. The page's security policy would refuse a style element.
  const place = document.createElement("div");
  const root = place.attachShadow({mode: "open"});
  area.before(place);
  area.hidden = true;
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        keymap.of([{key: "Mod-Enter", run}, ...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        lineNumbers(), history(), drawSelection(), highlightSpecialChars(), bracketMatching(), closeBrackets(), autocompletion(),
        sql({dialect: dialects[dialect] ?? StandardSQL, schema: tables, upperCaseKeywords: true}),
        placeholder(area.placeholder), EditorView.lineWrapping, theme, syntaxHighlighting(colors),
        EditorView.contentAttributes.of({"aria-label": area.getAttribute("aria-label") ?? "SQL"}),
      ],
    }),
  });
  area.form.addEventListener("submit", () => save(view));
};

for (const area of document.querySelectorAll("textarea[data-schema]")) edit(area);
