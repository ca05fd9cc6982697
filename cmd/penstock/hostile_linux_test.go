//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostMemory is the limit of the peak memory of sync, in MiB, whatever a source responds.
const mostMemory = 400

// joined() formats the numbers from 0 to n-1, and joins the results with commas.
func joined(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Each of these bodies has three records. Except in the first body, one record is hostile: it could take unbounded
// memory or time. All three records are loaded, and no value of the hostile record is lost. // Invariants 6, 11 and 15
func TestHostileBodiesTakeBoundedMemory(t *testing.T) {
	if args := os.Getenv(measuredEnv); args != "" {
		measure(t, strings.Fields(args))
		return
	}
	for name, tt := range map[string]struct {
		body, query, want string
	}{
		"a healthy list": {"", "SELECT count(*), count(total), count(DISTINCT name) FROM h_x", "3,3,3"},
		"100,000 names": {`,"wide":{` + joined(100_000, `"k%06d":1`) + `}`,
			"SELECT count(*), count(_penstock_rest), max(len(json_keys(_penstock_rest, '$.wide'))) BETWEEN 98000 AND 99999 FROM h_x", "3,1,true"},
		"20,000 lists of objects": {"," + joined(20_000, `"a%05d":[{"x":1}]`),
			"SELECT count(*), count(_penstock_rest), max(len(json_keys(_penstock_rest))) FROM h_x", "3,1,19800"},
		"200 levels": {`,"deep":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
			"SELECT count(*), count(deep__a__a), count(DISTINCT name) FROM h_x", "3,1,3"},
		"20,000 levels": {`,"deep":` + strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
			"SELECT count(*), count(name), count(DISTINCT name) FROM h_x", "3,3,3"},
		"a name of 7 MB": {`,"` + strings.Repeat("n", 7_000_000) + `":1`,
			"SELECT count(*), count(_penstock_rest), max(len(_penstock_rest::VARCHAR)) > 7000000 FROM h_x", "3,1,true"},
	} {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf(`[{"id":1,"name":"a","total":1},{"id":2,"name":"b","total":2%s},{"id":3,"name":"c","total":3}]`, tt.body)
			require.Equal(t, tt.want, syncHostile(t, body, tt.query))
		})
	}
}

// Hostile responses of up to 32 MB are read in bounded memory. // Invariants 6, 11 and 15
func TestHostileAnswersTakeBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 100 MB")
	}
	for name, tt := range map[string]struct {
		body        func() string
		query, want string
	}{
		"1,500,000 members beside the records": {
			func() string { return `{"data":[{"id":1},{"id":2}],` + joined(1_500_000, `"m%07d":%[1]d`) + "}" },
			"SELECT count(*) FROM h_x", "2"},
		"2,000,000 names": {
			func() string {
				var b strings.Builder
				for i := range 1000 {
					fmt.Fprintf(&b, `,{"id":%d`, i)
					for j := range 2000 {
						fmt.Fprintf(&b, `,"k%08d":1`, i*2000+j)
					}
					b.WriteByte('}')
				}
				return "[" + b.String()[1:] + "]"
			},
			"SELECT count(*), count(_penstock_rest), count(k00000001) FROM h_x", "1000,1000,1"},
		"800,000 records by their ids": {
			func() string { return `{"data":{` + joined(800_000, `"%d":{"id":%[1]d,"v":1}`) + "}}" },
			"SELECT count(*), count(DISTINCT id), sum(v)::BIGINT FROM h_x", "800000,800000,800000"},
		"6,000 records with 1,400 different names": {
			func() string {
				var b strings.Builder
				for i := range 6000 {
					fmt.Fprintf(&b, `,{"id":%d,"k%d":1,"k%d":2}`, i, i%1400, (i+700)%1400)
				}
				return "[" + b.String()[1:] + "]"
			},
			"SELECT count(*), count(_penstock_rest) > 3000, (SELECT count(*) FROM duckdb_columns() WHERE table_name = 'h_x') FROM h_x", "6000,true,506"},
		"990,000 tiny records": {
			func() string { return "[" + joined(990_000, `{"id":%d}`) + "]" },
			"SELECT count(*), count(DISTINCT id), sum(id)::BIGINT FROM h_x", "990000,990000,490049505000"},
		"980,000 rows of a child table": {
			func() string {
				return "[" + joined(4_900, `{"id":%d,"a":[`+strings.Repeat(`{"x":1},`, 199)+`{"x":1}]}`) + "]"
			},
			"SELECT count(*), (SELECT count(*) FROM h_x__a) FROM h_x", "4900,980000"},
		"3,600,000 empty texts in lists": {
			func() string {
				return "[" + joined(4, `{"id":%d,"a":[`+strings.Repeat(`"",`, 900_000-1)+`""]}`) + "]"
			},
			"SELECT count(*), sum(len(a))::BIGINT FROM h_x", "4,3600000"},
		"800,000 groups with one record each": {
			func() string { return `{"data":{` + joined(800_000, `"g%d":[{"id":%[1]d}]`) + "}}" },
			"SELECT count(*), count(DISTINCT id), count(DISTINCT _context__key) FROM h_x", "800000,800000,800000"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, syncHostile(t, tt.body(), tt.query)) })
	}
}

// syncHostile syncs a list whose only page is the given body, and checks the peak memory of the process. It then runs
// the query, and returns the last line of the result.
func syncHostile(t *testing.T, body, query string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	dir := t.TempDir()
	config := fmt.Sprintf(`version: 1
sources: {main: {app: {base_url: %q, auth: {token: of_this_test_alone}}}}
destinations: {w: "duckdb:w.duckdb"}
pipelines: {p: {from: main, to: w, streams: [h.x]}}
streams: {h.x: {path: /x, key: [id], pagination: none}}
`, server.URL)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pipelines.yaml"), []byte(config), 0o600))
	self, err := os.Executable()
	require.NoError(t, err)
	small := exec.Command(self, "-test.run=^TestHostileBodiesTakeBoundedMemory$")
	small.Dir, small.Env = dir, append(os.Environ(), measuredEnv+"=sync --no-progress")
	measured, err := small.Output()
	require.NoError(t, err, "%s", measured)
	peak := int64(0)
	_, err = fmt.Sscanf(string(measured[bytes.Index(measured, []byte(peakLine)):]), peakLine+"%d", &peak)
	require.NoError(t, err, "%s", measured)
	require.Greater(t, peak, int64(20), "the peak is too low for sync: it was measured for another process")
	require.Less(t, peak, int64(mostMemory))
	cmd := penstockIn(dir, self, "query", "--format", "csv", query)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]))
}

func penstockIn(dir, self string, args ...string) *exec.Cmd {
	cmd := exec.Command(self, args...)
	cmd.Args[0], cmd.Dir = "penstock", dir
	return cmd
}

const (
	measuredEnv = "PENSTOCK_TEST_MEASURED" // arguments of penstock
	peakLine    = "peak memory in MiB: "
)

// measure runs penstock and prints its peak memory. The peak that Linux reports for a process is at least the memory
// of the process that started it. So this process must be small, and runs no other test.
func measure(t *testing.T, args []string) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := penstockIn("", self, args...)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	fmt.Printf("%s%d\n", peakLine, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
}
