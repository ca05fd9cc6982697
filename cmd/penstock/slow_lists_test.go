//go:build unix

package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load/postgres"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
)

// TestSlowLists reads slow lists of six pages into Postgres, from several sources at once. Each page is a commit,
// and 24 passes run concurrently. The second run finds no changes: it requests each page once and writes nothing, and
// no stream waits for a decision. The test is repeated with two lists of one source.
func TestSlowLists(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	const pages, rows = 6, 40
	for _, tt := range []struct{ sources, lists int }{{3, 8}, {1, 2}} {
		t.Run(fmt.Sprint(tt.sources, "x", tt.lists), func(t *testing.T) {
			var asked atomic.Int64
			var again atomic.Bool
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				page, err := strconv.Atoi(r.URL.Query().Get("page"))
				if err != nil {
					page = 1
				}
				if again.Load() {
					time.Sleep(250 * time.Millisecond) // so that each pass waits for a page between two commits
				}
				var records []string
				for i := 0; i < rows && page <= pages; i++ {
					id := sha256.Sum256(fmt.Append(nil, r.URL.Path, page, i))
					records = append(records, fmt.Sprintf(`{"id":"%x","n":%d}`, id[:8], i))
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"data":[%s],"meta":{"current_page":%d,"last_page":%d,"total":%d}}`, strings.Join(records, ","), page, pages, pages*rows)
			}))
			defer api.Close()
			db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL(), Schema: fmt.Sprint("s", tt.sources)})
			require.NoError(t, err)
			defer db.Close()
			var streams []schemas.Stream
			var routes []wire.Route
			for i := range tt.lists {
				s := schemas.Stream{
					Table: schemas.Table{Name: fmt.Sprint("own_list_", i), Key: []string{"id"}}, Name: fmt.Sprint("own.list_", i), Surface: schemas.SurfaceApp,
					Method: "GET", Path: fmt.Sprint("/lists/", i), Class: schemas.ClassList, Records: []string{"/data"}, Enabled: true,
					Pagination: schemas.Pagination{Type: "page", Page: "page"},
				}
				streams, routes = append(streams, s), append(routes, wire.Route{Method: s.Method, Path: s.Path})
			}
			run := func(source string) pipeline.Report {
				app, err := wire.New(wire.Options{Name: source, BaseURL: api.URL + "/" + source, Allow: routes, Rate: budget.Rate{Limit: 10_000, Window: time.Second}})
				require.NoError(t, err)
				defer app.Close()
				client, err := extract.New(extract.Config{App: app, Selected: streams, Parallel: 1, Dir: t.TempDir()})
				require.NoError(t, err)
				defer client.Close()
				report, err := pipeline.Run(t.Context(), pipeline.Config{
					Name: "nightly", Source: client, Streams: streams, GroupRows: rows,
					Destinations: []pipeline.Destination{{Name: "bi", Destination: db.Share(source)}},
				})
				require.NoError(t, err)
				return report
			}
			for second := range 2 {
				asked.Store(0)
				again.Store(second > 0)
				var mu sync.Mutex
				var wg sync.WaitGroup
				var held []string
				written := int64(0)
				for i := range tt.sources {
					wg.Go(func() {
						report := run(fmt.Sprint("w", i))
						mu.Lock()
						defer mu.Unlock()
						written += report.Totals().Counts.Written
						for _, s := range report.Streams {
							if s.Status != pipeline.StatusComplete || s.Verdict != pipeline.Proven {
								held = append(held, fmt.Sprint(s.Stream, " ", s.Status, " ", s.Verdict, " ", s.Reasons, " ", s.Err))
							}
						}
					})
				}
				wg.Wait()
				require.Empty(t, held, "run %d", second+1)
				if second > 0 {
					require.EqualValues(t, tt.sources*tt.lists*pages, asked.Load(), "requests")
					require.Zero(t, written)
				}
			}
			require.NoError(t, db.Close())
			require.Equal(t, "0", server.Text(`SELECT count(*) FROM pg_class WHERE relname LIKE '\_penstock\_pass\_%'`))
		})
	}
}
