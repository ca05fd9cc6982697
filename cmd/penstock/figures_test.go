//go:build cgo && duckdb_arrow && unix

package main

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

var (
	figures  = flag.Bool("figures", false, "measure the promised figures; takes minutes, and needs two free cores")
	baseline = flag.String("baseline", "", "run as the baseline process, and load this NDJSON file")
	into     = flag.String("into", "", "with -baseline: the DuckDB file to load it into")
	pairs    = flag.Int("pairs", 3, "with -figures: how many times each pair is measured")
	rows     = flag.Int("rows", 1_000_000, "with -figures: number of records to load")
)

// figure is one promise about speed or memory. It has measurements of penstock, measurements of a baseline that ran in
// the same minutes, and the required ratio of the two.
type figure struct {
	what, base string
	ours, than []float64 // pairs of measurements: penstock's and the baseline's, in seconds, bytes or counts
	cpu        []float64 // only for figures about memory: the CPU seconds of penstock's processes, because saving memory may cost CPU time
	unit       string
	ratio      func(ours, than float64) float64
	reach      string // the required ratio, for the report
	holds      func(ratio float64) bool
}

func faster(ours, than float64) float64 { return than / ours }
func share(ours, than float64) float64  { return ours / than }

// ratios returns the ratio of each pair.
func (f figure) ratios() []float64 {
	ratios := make([]float64, len(f.ours))
	for i := range f.ours {
		ratios[i] = f.ratio(f.ours[i], f.than[i])
	}
	return ratios
}

// missed is the verdict on a figure if no pair of measurements reaches the required ratio. If a pair reaches the ratio
// but the median does not, noise may be the reason, and the verdict is "missed, within noise".
const missed = "MISSED"

func (f figure) verdict() string {
	ratios := f.ratios()
	switch {
	case f.holds(median(ratios)):
		return "reached"
	case slices.ContainsFunc(ratios, f.holds):
		return "missed, within noise"
	}
	return missed
}

func (f figure) print(w io.Writer) {
	ratios := f.ratios()
	r := median(ratios)
	what := f.what
	if len(f.cpu) > 0 {
		what += fmt.Sprintf(" (CPU %.1f s)", median(f.cpu))
	}
	fmt.Fprintf(w, "| %-60s | %9.4g %-3s | %-42s | %9.4g | %6.3f (%.3f-%.3f) | %-8s | %s |\n",
		what, median(f.ours), f.unit, f.base, median(f.than), r, slices.Min(ratios), slices.Max(ratios), f.reach, f.verdict())
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

// TestFigures prints the figures. It fails if no pair of measurements of a figure reaches the required ratio. Each
// figure is compared with a baseline that ran in the same minutes, because a busy machine slows both.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("measured by make bench")
	}
	dir := t.TempDir()
	ndjson := filepath.Join(dir, "contacts.ndjson")
	writeNDJSON(t, ndjson, *rows)
	out := io.MultiWriter(os.Stdout)
	fmt.Fprintf(out, "%d records, %d cores, %s\n", *rows, runtime.NumCPU(), runtime.Version())
	fmt.Fprintf(out, "| what | ours | baseline | baseline | ratio (min-max) | reach | verdict |\n|---|---|---|---|---|---|---|\n")
	for _, group := range []struct {
		name    string
		measure func(*testing.T) []figure
	}{
		{"load", func(t *testing.T) []figure { return loadFigures(t, dir, ndjson) }},
		{"work", func(t *testing.T) []figure { return workFigures(t, dir, ndjson) }},
		{"decode", func(t *testing.T) []figure { return decodeFigures(t, ndjson) }},
		{"unchanged", unchangedFigures},
		{"latency", func(t *testing.T) []figure { return latencyFigures(t, dir) }},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, f := range group.measure(t) {
				f.print(out)
				if f.verdict() == missed {
					t.Errorf("%s: missed, want %s of %s", f.what, f.reach, f.base)
				}
			}
		})
	}
}

// TestFigureVerdict: a figure is missed only if no pair of measurements reaches the required ratio.
func TestFigureVerdict(t *testing.T) {
	t.Parallel()
	f := figure{ratio: faster, holds: func(r float64) bool { return r >= 1 }}
	for want, ours := range map[string][]float64{
		"reached": {1, 1, 3}, "missed, within noise": {1, 3, 3}, missed: {3, 3, 3},
	} {
		f.ours, f.than = ours, []float64{2, 2, 2}
		require.Equal(t, want, f.verdict())
	}
}

func writeNDJSON(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	s, err := sandbox.New(sandbox.Options{Contacts: n})
	require.NoError(t, err)
	require.NoError(t, s.WriteContactsNDJSON(w, n))
	require.NoError(t, w.Flush())
}

// decodeFigures compares how fast penstock and DuckDB turn JSON into columns. Both use one core and decode every value.
// penstock reads from memory, and DuckDB from a file in the page cache.
func decodeFigures(t *testing.T, ndjson string) []figure {
	const n = 200_000
	raw, pages := firstRecords(t, ndjson, n, 1000)
	small := filepath.Join(t.TempDir(), "small.ndjson")
	require.NoError(t, os.WriteFile(small, raw, 0o600))
	speed := figure{what: "JSON to Arrow, one core, 1000-record pages", base: "DuckDB read_json, one thread, full decode",
		unit: "s", ratio: faster, reach: ">= 1.3", holds: func(r float64) bool { return r >= 1.3 }}
	allocs := figure{what: "allocations a record, steady state", base: "(the bound)", unit: "", ratio: share,
		reach: "<= 0.5", holds: func(r float64) bool { return r <= 0.5 }}
	for range *pairs + 2 {
		theirs := duckDecode(t, small)
		ours, perRecord := mapPages(t, pages)
		speed.ours, speed.than = append(speed.ours, ours), append(speed.than, theirs)
		allocs.ours, allocs.than = append(allocs.ours, perRecord), append(allocs.than, 1)
	}
	return []figure{speed, allocs}
}

// firstRecords returns the first n lines of the file in two forms: unchanged, and as pages with the given number of
// records.
func firstRecords(t *testing.T, path string, n, size int) ([]byte, [][]byte) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var raw []byte
	var pages [][]byte
	page := []byte{'['}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for i := 1; i <= n && s.Scan(); i++ {
		raw = append(append(raw, s.Bytes()...), '\n')
		page = append(append(page, s.Bytes()...), ',')
		if i%size == 0 {
			page[len(page)-1] = ']'
			pages, page = append(pages, page), []byte{'['}
		}
	}
	require.NoError(t, s.Err())
	return raw, pages
}

func mapPages(t *testing.T, pages [][]byte) (seconds, allocs float64) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	cat, err := schemas.Load()
	require.NoError(t, err)
	s, ok := cat.Find("v2.contacts")
	require.True(t, ok)
	m := transform.NewMapper(s, transform.Stamp{Run: transformRun, SyncedAt: time.Unix(0, 0), Via: "poll"}, nil)
	flush := func() {
		batches, rejects := m.Flush()
		require.Empty(t, rejects)
		for _, b := range batches {
			b.Batch.Release()
		}
	}
	add := func(page []byte) {
		rest, err := m.Append(page)
		require.NoError(t, err)
		require.Empty(t, rest)
	}
	for _, p := range pages[:20] {
		add(p)
	}
	flush()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpu()
	for _, p := range pages {
		add(p)
		if m.Rows() >= 10_000 {
			flush()
		}
	}
	flush()
	seconds = cpu() - start
	runtime.ReadMemStats(&after)
	return seconds, float64(after.Mallocs-before.Mallocs) / float64(len(pages)*1000)
}

const transformRun = "figures00000"

// cpu returns the CPU time of this process in seconds. On a busy machine it is more accurate than elapsed time.
func cpu() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return seconds(u.Utime) + seconds(u.Stime)
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// duckDecode returns the CPU time that DuckDB takes to decode every value of the file. A hash over all columns makes
// DuckDB decode them. The time of the hash itself is subtracted.
func duckDecode(t *testing.T, ndjson string) float64 {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	run := func(q string) float64 {
		start := cpu()
		_, err := db.Exec(q)
		require.NoError(t, err, q)
		return cpu() - start
	}
	run("SET threads = 1")
	columns := readColumns(t, db, ndjson)
	read := fmt.Sprintf("read_json('%s', format = 'newline_delimited', columns = %s)", ndjson, columns)
	run("CREATE TABLE decoded AS SELECT * FROM " + read)
	hash := run("SELECT bit_xor(hash(decoded)) FROM decoded")
	return run("SELECT bit_xor(hash(r)) FROM "+read+" r") - hash
}

// readColumns returns the columns that DuckDB detects in the file. With this list, later queries need not detect them,
// and the measured time does not include the detection.
func readColumns(t *testing.T, db *sql.DB, ndjson string) string {
	t.Helper()
	rs, err := db.Query(fmt.Sprintf("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM read_json('%s', format = 'newline_delimited', sample_size = 20000))", ndjson))
	require.NoError(t, err)
	defer rs.Close()
	var parts []string
	for rs.Next() {
		var name, typ string
		require.NoError(t, rs.Scan(&name, &typ))
		parts = append(parts, fmt.Sprintf("'%s': '%s'", name, typ))
	}
	require.NoError(t, rs.Err())
	return "{" + strings.Join(parts, ", ") + "}"
}

// If the name of the output file contains ".flat", the baseline makes the same tables as penstock. Otherwise the
// baseline makes one table with nested columns.
const flat = ".flat"

// flatTables are queries. Their results are the tables that penstock makes from the records, without the columns that
// penstock adds.
var flatTables = []string{
	"SELECT * EXCLUDE (address, phones), unnest(address) FROM records",
	"SELECT id, generate_subscripts(phones, 1) AS place, unnest(phones, recursive := true) FROM records",
}

// TestBaseline runs in the baseline process: DuckDB loads the same records from a local file into a DuckDB file or
// into Parquet.
func TestBaseline(t *testing.T) {
	if *baseline == "" {
		t.Skip("TestFigures runs this as a process")
	}
	file := *into
	parquet, ok := strings.CutSuffix(file, ".parquet")
	if ok {
		file = ""
	}
	db, err := sql.Open("duckdb", file)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	read := fmt.Sprintf("SELECT * FROM read_json('%s', format = 'newline_delimited', columns = %s)", *baseline, readColumns(t, db, *baseline))
	var all []string
	from := []string{read}
	if strings.Contains(filepath.Base(*into), flat+".") {
		all, from = []string{"CREATE TEMP TABLE records AS " + read}, flatTables
	}
	for i, q := range from {
		store := fmt.Sprintf("CREATE TABLE contacts%d AS %s", i, q)
		if ok {
			store = fmt.Sprintf("COPY (%s) TO '%s%d.parquet' (FORMAT parquet, COMPRESSION zstd)", q, parquet, i)
		}
		all = append(all, store)
	}
	for _, q := range all {
		_, err = db.Exec(q)
		require.NoError(t, err, q)
	}
}

// process has the resources that a finished child process used, and its output.
type process struct {
	wall, cpu float64 // seconds
	rss       float64 // peak, in bytes
	written   float64 // bytes written to the disk
	out       string
}

// run starts a process and waits for it. The process does not inherit the heap limit that suite() sets for the tests.
func run(t *testing.T, dir string, name string, args ...string) process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, heapEnv+"=") })
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	require.NoError(t, cmd.Start())
	rss := make(chan float64)
	done := make(chan struct{})
	go func() { rss <- peakMemory(cmd.Process.Pid, done) }()
	err := cmd.Wait()
	wall := time.Since(start).Seconds()
	close(done)
	require.NoError(t, err, "%s %v\n%s", name, args, out.String())
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return process{wall: wall, cpu: seconds(u.Utime) + seconds(u.Stime), rss: <-rss, written: float64(u.Oublock) * 512, out: out.String()}
}

// peakMemory polls the peak memory of a process until the process ends. It does not use the value of wait4, because
// this value includes pages that the child shared with its parent before exec.
func peakMemory(pid int, done <-chan struct{}) (peak float64) {
	for {
		select {
		case <-done:
			return peak
		case <-time.After(5 * time.Millisecond):
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			var kb float64
			if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kb); n == 1 {
				peak = max(peak, kb*1024)
			}
		}
	}
}

// landing is a destination for which a whole sync is measured. It also has the baseline for this destination.
type landing struct {
	name, base  string
	to          target
	reach       float64 // required ratio of penstock's speed to the baseline's
	bound       float64 // limit of the peak memory, in MB
	like        string  // name of a second baseline, whose work is more like penstock's; "" for none
	runBaseline func(t *testing.T, i int) (bare, like float64)
}

func landings(t *testing.T, dir, ndjson string) []landing {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	engine := func(t *testing.T, ext string) float64 {
		into := t.TempDir()
		defer os.RemoveAll(into)
		return run(t, dir, self, "-test.run", "^TestBaseline$", "-baseline", ndjson, "-into", filepath.Join(into, "base"+ext)).wall
	}
	pg := newPostgresTarget(t)
	return []landing{
		{name: "DuckDB file", base: "DuckDB CREATE TABLE AS read_json(local file)", to: duckTarget{dir}, reach: 0.9, bound: 400, like: "the same, into penstock's two tables",
			runBaseline: func(t *testing.T, _ int) (float64, float64) { return engine(t, ".duckdb"), engine(t, flat+".duckdb") }},
		{name: "Parquet, zstd", base: "DuckDB COPY (read_json(local file)) TO Parquet", to: parquetTarget{dir}, reach: 1, bound: 300, like: "the same, into penstock's two tables",
			runBaseline: func(t *testing.T, _ int) (float64, float64) { return engine(t, ".parquet"), engine(t, flat+".parquet") }},
		{name: "Postgres, logged", base: "COPY FROM a binary file of the same rows", to: pg, reach: 0.85, bound: 160, like: "the same COPY, then the same keys",
			runBaseline: func(t *testing.T, _ int) (float64, float64) { return pg.copyBack(t) }},
	}
}

// installed() copies a freshly linked program in small pieces. Without the copy, the measured memory would be too high:
// the linker writes the whole program at once, so the kernel stores it as one large piece in the page cache. If a
// process touches one page of the piece, the kernel counts the whole piece as memory of the process. With Linux 6.18,
// `penstock version` takes 77 MB directly after linking, and 43 MB if the program was copied in this way or read from
// a disk.
func installed(t *testing.T, dir, built string) string {
	t.Helper()
	from, err := os.Open(built)
	require.NoError(t, err, "run make build first")
	defer from.Close()
	path := filepath.Join(dir, filepath.Base(built))
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o700)
	require.NoError(t, err)
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 4<<10))
	require.NoError(t, err)
	require.NoError(t, to.Close())
	return path
}

// loadFigures compares whole processes: penstock loads the sandbox's records over HTTP, and a database engine loads
// the same records from a local file.
func loadFigures(t *testing.T, dir, ndjson string) []figure {
	bin := installed(t, dir, "../../bin/penstock")
	lands := landings(t, dir, ndjson)
	peaks := make([]float64, len(lands))
	var out []figure

	stop := startSandbox(t, bin, dir, *rows)
	for i, l := range lands {
		fs, peak := l.measure(t, bin, dir, stop.url)
		out, peaks[i] = append(out, fs...), peak
	}
	stop.stop()

	stop = startSandbox(t, bin, dir, 10**rows)
	defer stop.stop()
	for i, l := range lands {
		l.to.reset(t, false)
		ten := run(t, dir, bin, "sync", "-c", figuresConfig(t, dir, stop.url, l.to), "--no-progress")
		t.Logf("%s, ten times: %.2fs cpu %.2f rss %.0f MB", l.name, ten.wall, ten.cpu, ten.rss/1e6)
		out = append(out, figure{what: l.name + ": peak memory, ten times the records", base: "peak memory, once", unit: "MB",
			ratio: share, reach: "<= 1.05", holds: func(r float64) bool { return r <= 1.05 }, ours: []float64{ten.rss / 1e6}, than: peaks[i : i+1], cpu: []float64{ten.cpu}})
		l.to.reset(t, false)
	}
	return out
}

// measure runs penstock and the baseline in turn, and returns the figures.
func (l landing) measure(t *testing.T, bin, dir, url string) (figures []figure, peakMB float64) {
	t.Helper()
	load := figure{what: "records over HTTP into " + l.name, base: l.base, unit: "s",
		ratio: faster, reach: fmt.Sprintf(">= %g", l.reach), holds: func(r float64) bool { return r >= l.reach }}
	like := load
	like.base = l.like
	again := figure{what: l.name + ": second run, nothing changed", base: "the first run", unit: "s",
		ratio: share, reach: "<= 0.5", holds: func(r float64) bool { return r <= 0.5 }}
	bytesAgain := figure{what: l.name + ": bytes the second run writes", base: "bytes of the first run", unit: "MB",
		ratio: share, reach: "~ 0", holds: func(r float64) bool { return r <= 0.002 }}
	peak := figure{what: l.name + ": peak memory, whole process", base: "the bound", unit: "MB",
		ratio: share, reach: "<= 1", holds: func(r float64) bool { return r <= 1 }}
	spare := figure{what: l.name + ": CPU of the first run", base: "the first run with a heap of 1 GiB", unit: "s",
		ratio: share, reach: "<= 1.1", holds: func(r float64) bool { return r <= 1.1 }}
	config := figuresConfig(t, dir, url, l.to)
	for i := range *pairs {
		l.to.reset(t, false)
		ample := run(t, dir, "env", heapEnv+"=1GiB", bin, "sync", "-c", config, "--no-progress")
		l.to.reset(t, false)
		first := run(t, dir, bin, "sync", "-c", config, "--no-progress")
		second := run(t, dir, bin, "sync", "-c", config, "--no-progress")
		base, alike := l.runBaseline(t, i)
		like.ours, like.than = append(like.ours, first.wall), append(like.than, alike)
		load.ours, load.than = append(load.ours, first.wall), append(load.than, base)
		again.ours, again.than = append(again.ours, second.wall), append(again.than, first.wall)
		bytesAgain.ours, bytesAgain.than = append(bytesAgain.ours, second.written/1e6), append(bytesAgain.than, first.written/1e6)
		peak.ours, peak.than = append(peak.ours, max(first.rss, second.rss)/1e6), append(peak.than, l.bound)
		peak.cpu = append(peak.cpu, first.cpu+second.cpu)
		spare.ours, spare.than = append(spare.ours, first.cpu), append(spare.than, ample.cpu)
		t.Logf("%s, pair %d: baseline %.2fs, second baseline %.2fs; first %.2fs cpu %.2f rss %.0f MB; second %.2fs cpu %.2f rss %.0f MB", l.name, i,
			base, alike, first.wall, first.cpu, first.rss/1e6, second.wall, second.cpu, second.rss/1e6)
	}
	figures = []figure{load, again, peak, spare}
	if l.like != "" {
		figures = slices.Insert(figures, 1, like)
	}
	if l.bound > 160 { // not for Postgres: there the server writes the bytes, not penstock
		figures = append(figures, bytesAgain)
	}
	return figures, median(peak.ours)
}

type running struct {
	url  string
	stop func()
}

func startSandbox(t *testing.T, bin, dir string, contacts int) running {
	t.Helper()
	cmd := exec.Command(bin, "sandbox", "--listen", "127.0.0.1:0", "--contacts", fmt.Sprint(contacts), "--no-limits", "--gzip=false", "--json")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	stop := func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	t.Cleanup(stop)
	var ready struct {
		URL string `json:"url"`
	}
	require.NoError(t, json.NewDecoder(out).Decode(&ready))
	go func() { _, _ = io.Copy(io.Discard, out) }()
	require.Eventually(t, func() bool {
		resp, err := http.Get(ready.URL + "/_sandbox/stats")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 20*time.Millisecond)
	return running{url: ready.URL, stop: stop}
}

func figuresConfig(t *testing.T, dir, url string, to target) string {
	t.Helper()
	return listConfig(t, dir, url, "pagination: {type: since_id, page: starting_after, size: limit, limit: 1000}", to)
}
