package knowledge

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// The function parsed() returns a configuration with these streams.
func parsed(t *testing.T, streams string) *config.Config {
	t.Helper()
	cat, err := schemas.Load()
	require.NoError(t, err)
	c, err := config.Parse([]byte(`version: 1
sources: {main: {v2: {base_url: "https://api.example", auth: {api_key: k}}, app: {base_url: "https://app.example", auth: {token: t}}}}
destinations: {w: "duckdb:w.duckdb"}
pipelines: {p: {from: main, to: w}}
`+streams), config.Input{File: "p.yaml", Env: func(string) (string, bool) { return "hush", true }, Catalogue: cat.Streams(), Schemes: []string{"duckdb"}})
	require.NoError(t, err, streams)
	return c
}

// asRead returns s without the fields that do not change how a stream is read and loaded.
func asRead(s schemas.Stream) schemas.Stream {
	s.Stated, s.RecordsKnown = nil, false // these say only where settings come from
	return s
}

// If the output of `penstock explain` is pasted into the configuration, the stream is read as before. This is tested
// for every stream of the catalogue, with and without a learned convention.
func TestExplainedYAMLReadsTheSame(t *testing.T) {
	t.Parallel()
	for name, learned := range map[string]extract.Convention{
		"catalogue": {},
		"learned": {
			Records: "/data/*/rows~1x: y", Context: "stage", Key: []string{"uuid"},
			Pagination: schemas.Pagination{Type: "page", Page: "page[number]", Size: "page[size]", Limit: 100, Zero: true, Query: true, Order: "sort=id&direction=asc"},
			Filter:     &extract.Filter{Param: "updated[gte]", Field: "updated_at", Format: records.UnitDateTime}, Located: true,
			Facts: []extract.Fact{{About: extract.FactRecords, From: extract.Learned}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, want := "streams:\n", map[string]schemas.Stream{}
			for _, s := range parsed(t, "").Streams {
				if !s.Readable() {
					continue
				}
				k := Knowledge{Stream: s, Learned: learned.About(s.Stream)}
				want[s.Name] = asRead(k.effective())
				text += strings.TrimPrefix(k.YAML(), "streams:\n")
			}
			require.Greater(t, len(want), 150)
			again := parsed(t, text)
			for name, s := range want {
				got, ok := again.Stream(name)
				require.True(t, ok)
				require.Equal(t, s, asRead(got.Stream), name)
			}
		})
	}
}

// A stream that the user has defined keeps the settings of its entry. A secret in the entry is not printed.
func TestExplainedYAMLOfAnOwnStream(t *testing.T) {
	t.Parallel()
	const entry = `streams:
  blog.posts:
    path: https://blog.example/posts
    params: {token: "${SECRET}", lang: en}
    records: [/items]
    mode: append
`
	s, ok := parsed(t, entry).Stream("blog.posts")
	require.True(t, ok)
	k := Knowledge{Stream: s, Learned: extract.Convention{
		LearnedAt: time.Now(), Located: true, Records: "/data", Key: []string{"id"}, Pagination: schemas.Pagination{Type: "page", Page: "page"},
		Facts: []extract.Fact{
			{About: extract.FactRecords, Value: "/data", From: extract.Learned, Evidence: []string{"page 1 has 10 there"}},
			{About: extract.FactKey, Value: "id", From: extract.Learned},
		},
	}.About(s.Stream)}
	text := k.YAML()
	require.NotContains(t, text, "hush")
	got, ok := parsed(t, text).Stream("blog.posts")
	require.True(t, ok)
	require.Equal(t, asRead(k.effective()), asRead(got.Stream))
	require.Equal(t, []string{"/items"}, got.Records, "the configured value must be used, not the learned one")

	facts := k.Facts()
	require.Equal(t, extract.Fact{About: extract.FactRecords, Value: "/items", From: extract.Configured,
		Evidence: []string{"page 1 has 10 there"}, Refuted: []string{"the probes found /data; the configured value is used"}}, facts[0])
	require.Equal(t, extract.Learned, facts[1].From)
}
