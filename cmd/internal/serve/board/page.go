package board

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

type page struct {
	Title, Nav string
	Here       string
	Mark       string
	Actions    string // the CSRF token for forms that change something; "" for visitors who may only read
	Said       string // message of the action that has led to this page
	Fault      string
	Version    string
	Open       bool // the visitor may see the pages of the dashboard
	Signed     bool // the visitor has signed in and can sign out
	Live       bool
	Queue      bool // there are pages of a queue
	Data       any
}

func parsePages(now func() time.Time) (map[string]*template.Template, error) {
	shared, err := template.New("").Funcs(functions(now)).ParseFS(pageFiles, "pages/layout.html", "pages/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	entries, err := pageFiles.ReadDir("pages")
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	pages := map[string]*template.Template{}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(pageFiles, "pages/"+e.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("read page %s: %w", name, err)
		}
		pages[name] = t
	}
	return pages, nil
}

// fewNames is how many sources of a pipeline a page names. A pipeline may have 10,000.
const fewNames = 12

func functions(now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"age":     func(t time.Time) string { return ageOf(t, now()) },
		"stamp":   stamp,
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"zoned":   zoned,
		"stampIn": stampIn,
		"clock":   clockIn,
		"lines":   lines,
		"since":   func(t time.Time) string { return span(now().Sub(t)) },
		"took":    took,
		"num":     number,
		"size":    bytesOf,
		"rate":    perSecond,
		"pct":     percent,
		"wide":    func(f float64) string { return strconv.Itoa(int(1000 * max(0, min(1, f)))) },
		"brief":   brief,
		"join":    strings.Join,
		"few":     func(names []string) []string { return names[:min(len(names), fewNames)] },
		"rest":    func(names []string) int { return max(0, len(names)-fewNames) },
		"tone":    ToneOf,
		"word":    statusWord,
		"hint":    statusHint,
		"words":   words,
		"trigger": triggerWord,
		"vtone":   verdictTone,
		"vhint":   verdictHint,
		"facts":   evidence,
		"spark":   spark,
		"rates":   rateChart,
		"minute":  minuteChart,
		"cells":   cells,
		"lasted":  func(f float64) string { return took(seconds(f)) },
		"newest":  func(all []TrendPoint) []TrendPoint { all = slices.Clone(all); slices.Reverse(all); return all },
		"seconds": func(f float64) string {
			return span(time.Duration(f * float64(time.Second)))
		},
		"pipelineURL": pipelinePath,
		"sourceURL":   sourcePath,
		"streamURL":   streamPath,
		"streamOfURL": streamOfPath,
		"runOfURL":    runOfPath,
		"runURL":      runPath,
		"query":       queryPath,
		"dataURL":     dataPath,
		"tableURL":    tablePath,
		"sqlURL":      sqlPathOf,
		"value":       browse.Text,
		"selectOf":    selectOf,
		"histogram":   histogram,
		"proofTone":   func(v string) Tone { return verdictTone(pipeline.Verdict(v)) },
		"proofHint":   func(v string) string { return verdictHint(pipeline.Verdict(v)) },
		"share":       func(n, of int) float64 { return float64(n) / float64(max(1, of)) },
		"statuses":    func() []string { return []string{"complete", "partial", "failed", "stopped", "running"} },
		"asset":       assetURL,
		"nav":         navItems,
		"pair":        func(a, b any) []any { return []any{a, b} },
		"plus":        func(a, b int) int { return a + b },
	}
}

type navItem struct{ Path, Name string }

func navItems() []navItem {
	return []navItem{
		{"/", "Now"}, {"/pipelines", "Pipelines"}, {"/sources", "Sources"}, {"/streams", "Streams"}, {"/data", "Data"}, {"/runs", "Runs"}, {"/history", "History"}, {"/graph", "Graph"}, {"/rejects", "Rejects"},
		{"/schema", "Schema"}, {"/webhooks", "Webhooks"}, {"/rate", "Rate"}, {"/audit", "Audit"},
	}
}

func (b *Board) render(w http.ResponseWriter, status int, name string, p page) {
	var text bytes.Buffer
	p.Queue = b.Queue != nil
	if err := b.pages[name].ExecuteTemplate(&text, "layout", p); err != nil {
		b.Log.Error("render dashboard page", "page", name, "error", err)
		http.Error(w, "cannot render the page; see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	// A browser paints the header while it reads the rest of a long page.
	head := bytes.Index(text.Bytes(), []byte("</header>"))
	_, _ = w.Write(text.Next(head))
	_ = http.NewResponseController(w).Flush()
	_, _ = w.Write(text.Bytes())
}

// asset serves a style, a script or a picture. Browsers may cache it forever, because its URL contains a hash of
// the content.
func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, err := assetFiles.ReadFile("assets/" + path.Base(name))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == printOf(text) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	_, _ = w.Write(text)
}

func assetURL(name string) string {
	text, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		return "/assets/" + name
	}
	return "/assets/" + name + "?v=" + printOf(text)
}

func printOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
