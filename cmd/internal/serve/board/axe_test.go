package board_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/state"
)

// axe-core finds no violation on any page, in either scheme. `make axe` fetches axe-core
// and runs this test.
func TestAxe(t *testing.T) {
	file := os.Getenv("PENSTOCK_TEST_AXE")
	if file == "" {
		t.Skip("PENSTOCK_TEST_AXE does not name axe.min.js; make axe fetches it")
	}
	axe, err := os.ReadFile(file)
	require.NoError(t, err)
	f := telling(6, plain)
	s := boardOf(t, f, "")
	v := tab(t)
	v.run(t, call(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}))
	paths := append(pages(f), "/graph?source=main", "/history?source=main&range=24h", "/nothing")
	for _, l := range allLooks()[:2] {
		v.look(t, l)
		for _, path := range paths {
			v.run(t, chromedp.Navigate(s.URL+path), chromedp.WaitReady(chromedp.CSS("#main")),
				chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`), chromedp.Evaluate[chromedp.Void](string(axe)+"\n;0"))
			found := eval[[]string](t, v, `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.flatMap((x) => x.nodes.slice(0, 3).map((n) => x.id + ": " + x.help + ": " + n.html.slice(0, 160))))`)
			assert.Empty(t, found, "%s %s", path, l.name)
			t.Log(path, l.name, len(found))
		}
	}
}

// maxPicture limits the size of a picture in the documentation.
const maxPicture = 150_000

// `make pictures` writes pictures of the dashboard over the sandbox for the documentation. The history before the one
// run is made up.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PENSTOCK_TEST_PICTURES")
	if dir == "" {
		t.Skip("PENSTOCK_TEST_PICTURES does not name a folder; make pictures does")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	folder := &state.Folder{Dir: t.TempDir()}
	w, s := daemonOn(t, folder, sandbox.Options{}, "crm", "v2", "accounting", "sales")
	require.Equal(t, 202, s.do(t, "POST", "/api/v1/pipelines/nightly/run", "").StatusCode)
	var run string
	require.Eventually(t, func() bool {
		runs := listOf[board.Run](t, s, "/api/v1/runs")
		if len(runs) == 1 && runs[0].Status == pipeline.StatusComplete {
			run = runs[0].ID
		}
		return run != ""
	}, 5*time.Minute, time.Second)
	w.makeHistory(folder)
	v := tab(t)
	for _, l := range allLooks()[:2] {
		v.look(t, l)
		for name, path := range map[string]string{"history": "/history?range=30d", "run": "/runs/" + run, "graph": "/graph"} {
			v.run(t, chromedp.Navigate(s.URL+path), chromedp.WaitReady(chromedp.CSS("#main table, #main svg")))
			picture := small(t, ask(t, v, chromedp.CaptureScreenshot()))
			require.Less(t, len(picture), maxPicture, name)
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s.png", name, l.scheme)), picture, 0o644))
		}
	}
}

// small returns the picture with its 256 most frequent colors.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	in, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	count := map[color.Color]int{}
	for y := range in.Bounds().Dy() {
		for x := range in.Bounds().Dx() {
			count[in.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	out := image.NewPaletted(in.Bounds(), colors[:min(len(colors), 256)])
	draw.Draw(out, out.Bounds(), in, image.Point{}, draw.Src)
	var text bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&text, out))
	return text.Bytes()
}

// makeHistory makes up a history of 90 days.
func (w *works) makeHistory(folder *state.Folder) {
	h, err := folder.OpenHistory(w.t.Context())
	require.NoError(w.t, err)
	var work []state.Work
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(2 * time.Hour)
	of := []state.Series{{Pipeline: "nightly"}, {Pipeline: "nightly", Source: "main"}}
	for _, name := range w.names() {
		of = append(of, state.Series{Pipeline: "nightly", Stream: name})
	}
	for day := range 90 {
		for i, s := range of {
			p := pointAt(now.Add(-time.Duration(day)*24*time.Hour), time.Hour, int64(day+i))
			work = append(work, state.Work{Series: s, At: p.At, Runs: p.Runs, Incomplete: p.Incomplete, Took: p.Took, Complete: p.Complete, WorkCounts: p.WorkCounts})
		}
	}
	require.NoError(w.t, h.Add(w.t.Context(), work))
	require.NoError(w.t, h.Close())
}

// With 2,000 streams and 10,000 sources, the test prints the size of each page, the CPU time of the server, and when
// the browser has painted the page for the first time.
func TestFirstPaint(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	f := telling(2000, plain)
	f.pipelines, f.webhooks, f.now.Running = f.pipelines[:1], nil, nil
	f.pipelines[0].From = nil
	for i := range 10_000 {
		f.pipelines[0].From = append(f.pipelines[0].From, fmt.Sprintf("acme_%05d", i))
	}
	for i := range f.streams {
		f.streams[i].Pipeline, f.streams[i].Source, f.streams[i].Name = "nightly", "", fmt.Sprintf("crm.s%04d", i)
	}
	s := boardOf(t, f, "")
	v := tab(t)
	for _, path := range append(pages(f), "/history?range=90d", "/history/series?by=source", "/history/series?by=stream") {
		text, err := io.ReadAll(s.do(t, "GET", path, "").Body)
		require.NoError(t, err)
		begun, n := cpuTime(t), 10
		for range n {
			s.do(t, "GET", path, "")
		}
		server := (cpuTime(t) - begun) / time.Duration(n)
		var paints []float64
		for range 5 {
			v.run(t, chromedp.Navigate(s.URL+path), chromedp.WaitReady(chromedp.CSS("#main")))
			v.sees(t, `performance.getEntriesByName("first-contentful-paint").length > 0`)
			paints = append(paints, eval[float64](t, v, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		}
		t.Logf("%-28s %7d bytes, %v CPU, first paint after %.0f ms", path, len(text), server.Round(100*time.Microsecond), paints)
		require.Less(t, len(text), 130_000, path)
	}
}
