package render

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	htmltemplate "html/template"
	"io"
	"strings"
	"text/template"
)

//go:embed templates/dictionary.md templates/dictionary.html
var dictionaryTemplates embed.FS

//go:embed templates/dictionary.js
var dictionaryScript string

// WriteMarkdown writes a dictionary as Markdown.
func WriteMarkdown(w io.Writer, d Dictionary) error {
	t, err := template.New("dictionary.md").Funcs(template.FuncMap{
		"grouped": Grouped, "shown": shown, "cell": markdownCell, "join": strings.Join,
	}).ParseFS(dictionaryTemplates, "templates/dictionary.md")
	if err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	return t.Execute(w, d)
}

// markdownCell escapes text for a table cell.
func markdownCell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(Printable(s, false))
}

// WriteHTML writes a dictionary as one HTML page. Its only script is for searching. The page allows no other script, and
// loads nothing.
func WriteHTML(w io.Writer, d Dictionary) error {
	t, err := htmltemplate.New("dictionary.html").Funcs(htmltemplate.FuncMap{
		"grouped": Grouped, "shown": shown, "join": strings.Join,
	}).ParseFS(dictionaryTemplates, "templates/dictionary.html")
	if err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	sum := sha256.Sum256([]byte(dictionaryScript))
	return t.Execute(w, struct {
		Dictionary
		Script htmltemplate.JS
		Hash   string
	}{d, htmltemplate.JS(dictionaryScript), base64.StdEncoding.EncodeToString(sum[:])})
}
