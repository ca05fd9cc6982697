//go:build cgo && duckdb_arrow

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/extract/sandbox"
)

// forecast returns the forecast that the command plan prints.
func (p *platform) forecast(t *testing.T) (f forecast.Forecast) {
	t.Helper()
	code, out, errs := p.penstock(t, "plan", "--json")
	require.Equal(t, failure.ExitDone, code, errs)
	require.NoError(t, json.Unmarshal([]byte(out), &f))
	return f
}

// synced runs the command sync, and returns how many requests the sandbox has received from it.
func (p *platform) synced(t *testing.T) float64 {
	t.Helper()
	before := p.Stats().Requests
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	return float64(p.Stats().Requests - before)
}

// TestPlanForecastsRuns: before the first run, plan forecasts at least half and at most twice the requests that the
// run needs. To do so, plan itself sends few requests. Before the second run, the forecast is wrong by at most a
// tenth.
func TestPlanForecastsRuns(t *testing.T) {
	t.Parallel()
	scales := []int{1, 10}
	if testing.Short() {
		scales = scales[:1]
	}
	for _, scale := range scales {
		t.Run(fmt.Sprint(scale), func(t *testing.T) {
			t.Parallel()
			p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: scale}, `"*"`, sqliteTarget{t.TempDir()})
			first := p.forecast(t)
			require.Zero(t, first.Guessed)
			require.True(t, first.AtLeast, "v2.contacts does not state how many contacts there are")
			require.EqualValues(t, p.Stats().Requests, first.Sent)
			needed := p.synced(t)
			require.InDelta(t, 0, needed/float64(first.Requests)-1, 1, "forecast %d, needed %g", first.Requests, needed)
			require.InDelta(t, 0, float64(first.Requests)/needed-1, 1, "forecast %d, needed %g", first.Requests, needed)
			require.Less(t, float64(first.Sent), needed/8)

			second := p.forecast(t)
			require.False(t, second.AtLeast)
			require.Zero(t, second.Sent)
			needed = p.synced(t)
			require.InEpsilon(t, needed, second.Requests, 0.1)
		})
	}
}

// TestPlanOfAnUnreachableSource: if plan cannot reach the source, it still prints a forecast, and says that it knows
// nothing about the lists.
func TestPlanOfAnUnreachableSource(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sandbox.Options{}, `["crm.leads", "sales.invoices", "sales.invoice"]`, duckTarget{t.TempDir()})
	text, err := os.ReadFile(p.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.config(), []byte(strings.ReplaceAll(string(text), p.url, "http://127.0.0.1:1")), 0o600))
	code, out, errs := p.penstock(t, "plan")
	require.Equal(t, failure.ExitDone, code, errs)
	require.Contains(t, out, "3 streams: at least 3 requests,")
	require.Contains(t, out, "unknown: the size of 3 streams")
	require.Contains(t, errs, "the forecast knows nothing about some lists")
}

// TestPlanWithOneBadCredential: if the server refuses one credential, plan still finds the sizes of the lists that
// need another credential.
func TestPlanWithOneBadCredential(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["crm.*", "hr.*", "v2.contacts"]`, sqliteTarget{t.TempDir()})
	text, err := os.ReadFile(p.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.config(), []byte(strings.ReplaceAll(string(text), "pat_sandbox_readonly", "pat_wrong")), 0o600))
	f := p.forecast(t)
	basis := map[forecast.Basis]int{}
	for _, s := range f.Streams {
		basis[s.Basis]++
		if s.Stream == "v2.contacts" {
			require.Equal(t, forecast.Stated, s.Basis)
		}
	}
	require.Equal(t, 1, basis[forecast.Stated])
	require.Less(t, f.Sent, int64(len(f.Streams)), "after some failures with a credential, plan requests no more lists with it")
}
