package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox/servers"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/duckdb"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

// serverBatch is a batch of generated servers on one address, and the pipeline that reads
// each of them as a stream of its own, given by its path alone.
type serverBatch struct {
	t       *testing.T
	specs   []servers.Spec
	lists   []*servers.List
	streams []schemas.Stream
	http    *httptest.Server
	begun   []servers.Truth         // what the run before this one may have found
	open    func() load.Destination // as a new process opens it
	without string                  // the rule of proof that does not apply
}

func newServerBatch(t *testing.T, specs []servers.Spec, open func() load.Destination) *serverBatch {
	t.Helper()
	b := &serverBatch{t: t, specs: specs, open: open}
	b.begun = make([]servers.Truth, len(specs))
	mux := http.NewServeMux()
	for i, s := range specs {
		l, path, name := servers.New(s), fmt.Sprintf("/s/%05d", i), fmt.Sprintf("gen.s%05d", i)
		mux.Handle(path, l)
		method := s.Method
		if method == "" {
			method = http.MethodGet
		}
		b.lists = append(b.lists, l)
		b.streams = append(b.streams, schemas.Stream{
			Table: schemas.Table{Name: strings.ReplaceAll(name, ".", "_")}, Name: name, Module: "gen",
			Surface: schemas.Surface(name), Auth: schemas.AuthNone, // so that no server's failures count for another one
			Method: method, Path: path, Class: schemas.ClassList, Enabled: true,
			Stated: map[string]string{"path": schemas.StatedConfigured},
		})
	}
	b.http = httptest.NewServer(mux)
	return b
}

// source opens the servers as a new process does.
func (b *serverBatch) source() (c *extract.Client, done func()) {
	cfg := extract.Config{Streams: map[string]*wire.Client{}, Selected: b.streams, Dir: b.t.TempDir(), Parallel: 4}
	for _, s := range b.streams {
		w, err := wire.New(wire.Options{
			Name: s.Name, BaseURL: b.http.URL, Allow: []wire.Route{{Method: s.Method, Path: s.Path}},
			Rate: wire.Rate{Limit: 1_000_000, Window: time.Second}, MaxAttempts: 2,
		})
		require.NoError(b.t, err)
		cfg.Streams[s.Name] = w
	}
	c, err := extract.New(cfg)
	require.NoError(b.t, err)
	return c, func() {
		require.NoError(b.t, c.Close())
		for _, w := range cfg.Streams {
			require.NoError(b.t, w.Close())
		}
	}
}

// serverOutcome is what one run made of one server.
type serverOutcome struct {
	Run      int
	Spec     servers.Spec
	Report   StreamReport
	Cause    string // what is wrong; "" where nothing is
	Detail   string
	Requests []string
}

// resumed reports whether the pass began in the run before: it may have found what
// that run could find.
func (o serverOutcome) resumed() bool {
	return o.Run > 1 && strings.Contains(o.Report.Why, "begun by an earlier run")
}

// claims reports whether the run says that the table is whole.
func (o serverOutcome) claims() bool {
	return worse(StatusComplete, o.Report.Status) == StatusComplete
}

// run reads all servers once and judges the tables.
func (b *serverBatch) run(run int) []serverOutcome {
	b.t.Helper()
	for _, l := range b.lists {
		l.Begin()
	}
	source, done := b.source()
	defer done()
	dest := b.open()
	rep, err := Run(b.t.Context(), Config{
		Name: "generated", Source: source, Streams: b.streams, Workers: len(b.streams),
		Destinations: []Destination{{Name: "warehouse", Destination: dest}}, withoutRule: b.without,
	})
	require.NoError(b.t, err)
	outcomes := make([]serverOutcome, len(b.specs))
	for i, r := range rep.Streams {
		o := serverOutcome{Run: run, Spec: b.specs[i], Report: r, Requests: b.lists[i].Requests()}
		live, dead := marks(b.t, dest, r.Table)
		truth := b.lists[i].Truth()
		if o.resumed() {
			truth = truth.Since(b.begun[i])
		}
		o.Cause, o.Detail = o.judge(truth, live, dead)
		b.begun[i] = truth
		outcomes[i] = o
	}
	require.NoError(b.t, dest.Close())
	return outcomes
}

var markIn = regexp.MustCompile(`record -?\d+ version \d+`)

// marks are those of the rows of a table: alive, and marked as deleted.
func marks(t *testing.T, d load.Destination, table string) (live, dead map[string]int) {
	t.Helper()
	live, dead = map[string]int{}, map[string]int{}
	tables, err := d.Tables(t.Context(), table)
	require.NoError(t, err)
	for _, tab := range tables {
		if tab.Name != table {
			continue
		}
		var columns []string
		for _, f := range tab.Columns.Fields() {
			columns = append(columns, f.Name)
		}
		require.NoError(t, d.Scan(context.Background(), table, columns, func(r arrow.RecordBatch) error {
			for _, row := range loadtest.RowsOf(r) {
				to := live
				if _, gone := row[schemas.ColDeletedAt]; gone {
					to = dead
				}
				to[markOf(row)]++
			}
			return nil
		}))
	}
	return live, dead
}

func markOf(row loadtest.Row) string {
	for _, v := range row {
		if m := markIn.FindString(v); m != "" {
			return m
		}
	}
	return "no record"
}

// judge compares a table with what the run may have found.
func (o serverOutcome) judge(truth servers.Truth, live, dead map[string]int) (cause, detail string) {
	ever := map[string]bool{}
	for _, m := range truth.Ever {
		ever[m] = true
	}
	var missing, twice, buried, gone, wrong []string
	for _, m := range truth.Always {
		if live[m] == 0 {
			missing = append(missing, m)
			if dead[m] > 0 {
				buried = append(buried, m)
			}
		}
	}
	for m, n := range live {
		if n > 1 {
			twice = append(twice, m)
		}
		if m == "no record" {
			wrong = append(wrong, m)
		} else if !ever[m] {
			gone = append(gone, m)
		}
	}
	slices.Sort(gone)
	detail = fmt.Sprintf("missing %d%s, twice %d, marked as deleted %d, gone but alive %d%s, no record %d; %d live of %d", len(missing), few(missing), len(twice), len(buried), len(gone), few(gone), len(wrong), len(live), len(truth.Now))
	verdict := string(o.Report.Verdict)
	switch {
	case len(buried) > 0:
		return "a living row is marked as deleted, " + string(o.Report.Status) + " " + verdict, detail
	case !o.claims():
		return "", detail
	case len(missing) > 0 && o.Spec.Silent():
		return "", detail // no answer shows it
	case len(missing) > 0 && o.Spec.Drifts() && o.Report.Verdict == Consistent:
		return "", detail // read once
	case len(missing) > 0:
		return "rows are missing, " + verdict, detail
	case len(twice) > 0, len(wrong) > 0:
		return "rows stand twice or are no records, " + verdict, detail
	case len(gone) > 0 && o.Report.Verdict == Proven:
		return "rows that are gone stand, " + verdict, detail
	}
	return "", detail
}

func few(marks []string) string {
	if len(marks) == 0 {
		return ""
	}
	return " (" + strings.Join(marks[:min(3, len(marks))], ", ") + ")"
}

func (o serverOutcome) String() string {
	spec, _ := json.Marshal(o.Spec)
	return fmt.Sprintf("seed %d, run %d: %s\n  %s\n  %s %s: %s %v\n  %s\n  %s", o.Spec.Seed, o.Run, o.Cause, o.Detail,
		o.Report.Status, o.Report.Verdict, o.Report.Why, o.Report.Err, spec, strings.Join(o.Requests, "\n  "))
}

// TestServers is the property of every reading: the table equals the list, or the
// run says loudly that it does not, unless no answer of the server shows that records
// are missing. A living row is never marked as deleted. The servers are drawn from seeds; a few hundred
// in the gate, as many as PENSTOCK_TEST_TRIALS says elsewhere (make generated). Most
// land in the reference destination, which the conformance suite holds to the same
// contract; some land in DuckDB.
func TestServers(t *testing.T) {
	n := uint64(servedInTheGate)
	if text := os.Getenv("PENSTOCK_TEST_TRIALS"); text != "" {
		var err error
		n, err = strconv.ParseUint(text, 10, 63)
		require.NoError(t, err)
	}
	from := uint64(1)
	if text := os.Getenv("PENSTOCK_TEST_SEED"); text != "" {
		var err error
		from, err = strconv.ParseUint(text, 10, 63)
		require.NoError(t, err)
	}
	begun := time.Now()
	var alarms falseAlarms
	for first := from; first < from+n; first += serversAtOnce {
		var specs []servers.Spec
		for seed := first; seed < min(first+serversAtOnce, from+n); seed++ {
			specs = append(specs, servers.Draw(seed))
		}
		for _, o := range readServers(t, specs, inMemory(), "") {
			alarms.add(o)
			if o.Cause != "" && !known(o) {
				t.Error(o)
			}
		}
	}
	t.Logf("%d servers in %v", n, time.Since(begun).Round(time.Second))
	alarms.hold(t)
}

// TestServersInDuckDB reads some of the same servers into the engine that most
// people use.
func TestServersInDuckDB(t *testing.T) {
	var specs []servers.Spec
	for seed := range uint64(60) {
		specs = append(specs, servers.Draw(1+seed))
	}
	path := filepath.Join(t.TempDir(), "warehouse.duckdb")
	if d, err := duckdb.Open(t.Context(), duckdb.Options{Path: path}); errors.Is(err, duckdb.ErrNotBuilt) {
		t.Skip(err)
	} else {
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	for _, o := range readServers(t, specs, func() load.Destination {
		d, err := duckdb.Open(t.Context(), duckdb.Options{Path: path})
		require.NoError(t, err)
		return d
	}, "") {
		if o.Cause != "" && !known(o) {
			t.Error(o)
		}
	}
}

const (
	servedInTheGate = 500
	serversAtOnce   = 200
)

// inMemory opens the reference destination, again and again the same one.
func inMemory() func() load.Destination {
	m := loadtest.NewMemory(nil)
	return func() load.Destination { return m.Reopen(nil) }
}

// readServers reads servers twice and gives the outcomes of both runs.
func readServers(t *testing.T, specs []servers.Spec, open func() load.Destination, without string) []serverOutcome {
	b := newServerBatch(t, specs, open)
	b.without = without
	defer b.http.Close()
	return append(b.run(1), b.run(2)...)
}

// falseAlarms counts the lists with nothing wrong, and those of them that were not
// read whole, by family.
type falseAlarms struct {
	plain, refused map[string]int
	examples       []string
}

func (f *falseAlarms) add(o serverOutcome) {
	if !o.Spec.Plain() {
		return
	}
	if f.plain == nil {
		f.plain, f.refused = map[string]int{}, map[string]int{}
	}
	family := o.Spec.Family()
	f.plain[family]++
	if !o.claims() {
		f.refused[family]++
		f.examples = append(f.examples, fmt.Sprintf("seed %d, run %d, %s: %s %s: %s %v", o.Spec.Seed, o.Run, family, o.Report.Status, o.Report.Verdict, o.Report.Why, o.Report.Err))
	}
}

// mostFalseAlarms is the share of lists with nothing wrong that may be refused.
const mostFalseAlarms = 0.25

func (f *falseAlarms) hold(t *testing.T) {
	t.Helper()
	plain, refused := 0, 0
	for _, family := range slices.Sorted(maps.Keys(f.plain)) {
		plain, refused = plain+f.plain[family], refused+f.refused[family]
		t.Logf("%-7s %4d readings with nothing wrong, %3d refused (%.1f %%)", family, f.plain[family], f.refused[family], 100*float64(f.refused[family])/float64(f.plain[family]))
	}
	t.Logf("all     %4d readings with nothing wrong, %3d refused (%.1f %%)", plain, refused, 100*float64(refused)/float64(plain))
	if os.Getenv("PENSTOCK_TEST_ALARMS") != "" {
		t.Log(strings.Join(f.examples, "\n"))
	}
	require.LessOrEqual(t, float64(refused), mostFalseAlarms*float64(plain), "too many lists with nothing wrong are refused, such as:\n%s", strings.Join(f.examples[:min(10, len(f.examples))], "\n"))
}

// knownServers are seeds that fail for a reason that is told here, until it is gone.
var knownServers = map[uint64]string{}

func known(o serverOutcome) bool { return knownServers[o.Spec.Seed] != "" }

// TestServersNeedEachRule takes one rule of proof away and reads servers that it
// protects: then the run says of one at least that it has what it has not, or does
// not have. With the rule, it says so of none.
func TestServersNeedEachRule(t *testing.T) {
	for _, rule := range proof.Rules() {
		if len(neededBy[rule]) == 0 {
			require.NotEmpty(t, notShownHere[rule], "no server shows what the rule %q is for", rule)
			continue
		}
		var specs []servers.Spec
		for _, seed := range neededBy[rule] {
			specs = append(specs, servers.Draw(seed))
		}
		for _, without := range []string{"", rule} {
			causes := ""
			for _, o := range readServers(t, specs, inMemory(), without) {
				causes += o.Cause
			}
			require.Equal(t, without == "", causes == "", "rule %q, servers %d, without %q: %s", rule, neededBy[rule], without, causes)
		}
	}
}

// neededBy are servers that a rule protects, by the rule.
var neededBy = map[string][]uint64{
	"total not met":      {896, 1086, 1123, 1426},
	"unreadable records": {363},
	"incomplete answer":  {402, 448, 858, 948},
	"usual length":       {198, 231, 316, 371},
	"overlapping pages":  {471},
	"uneven pages":       {1628},
	"doubtful":           {198, 342, 402, 448},
	"not proven":         {1628},
	"rejected records":   {1636},
	"gone":               {4, 17, 19, 22},
}

// notShownHere are the rules that none of a few thousand servers needs. For all of
// them the tests of proof show that facts exist which only this rule keeps from a
// wrong verdict.
var notShownHere = map[string]string{
	"twin has more": ofStreams, "windows": ofStreams, "parents not requested": ofStreams, "incremental": ofStreams, "cache": ofStreams,
	"refuted key": ofEngines, "duplicates not compared": ofEngines, "unknown end": ofEngines, "rows never known": ofEngines, "pages not shown": ofEngines,
	"unstored records": ofEngines, "resumed": ofEngines, "rest of a resumed pass": ofEngines, "rows unknown": ofEngines,
	"total changed": ofOthers, "differing duplicates": ofOthers, "repeated records": ofOthers, "end changed": ofOthers, "total moved": ofOthers, "readings differ": ofOthers,
	"nothing shown": ofOthers, "round size": ofOthers, "earlier reading": ofOthers, "better verdict": ofOthers, "doubtful, rows missing": ofOthers, "none missing": ofOthers,
	"empty list": ofOthers, "unexplained signal": ofProbes, "no witness": ofOthers, "no witness in the end": ofOthers, "brake": ofOthers,
}

const (
	ofStreams = "about parents, windows, twins and incremental reading, which a list given by its path alone does not have"
	ofEngines = "about destinations, crashes and sizes that these runs do not have"
	ofProbes  = "the probes stop at such a list before any pass"
	ofOthers  = "another rule protects each of these servers as well"
)
