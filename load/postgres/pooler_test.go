//go:build unix

package postgres

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// The conformance suite passes if a PgBouncer in transaction mode is between penstock and the server.
func TestPoolerConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("TestPooler tests this in less time")
	}
	server := pgtest.Start(t)
	loadtest.Run(t, driver(server, server.Pooler(t), Options{JSON: "json"}))
}

// poolerSettings returns settings of PgBouncer by name: with and without support for prepared statements. PgBouncer
// supports them since version 1.21.
func poolerSettings(t *testing.T) map[string][]string {
	all := map[string][]string{"default": {"default_pool_size = 3"}}
	if pgtest.PoolerVersion(t) >= 121 {
		all["none"] = []string{"default_pool_size = 3", "max_prepared_statements = 0"}
		all["many"] = []string{"default_pool_size = 3", "max_prepared_statements = 100"}
	}
	return all
}

// Behind a pooler in transaction mode, many loads and queries share a few sessions. All queries have the same text, but
// the name in it means another table in each schema. So a query must not use a statement that another client has
// prepared.
func TestPooler(t *testing.T) {
	server := pgtest.Start(t)
	for name, settings := range poolerSettings(t) {
		t.Run(name, func(t *testing.T) {
			url := server.Pooler(t, settings...)
			var servers Servers
			var all sync.WaitGroup
			for i := range 6 {
				schema, records := fmt.Sprint(name, i), 20+i
				d := open(t, Options{URL: url, Schema: schema, Servers: &servers})
				all.Go(func() {
					for p := 1; p <= 3; p++ {
						if _, err := attemptLoad(t, d, p, state.Cursor(fmt.Sprint("c", p)), faultParts(p, records)...); err != nil {
							t.Error(err)
							return
						}
						assert.Equal(t, fmt.Sprint(records-1), answer(t, d, "SELECT count(*)::text FROM crm_leads WHERE _penstock_deleted_at IS NULL"))
						assert.Contains(t, answer(t, d, "EXPLAIN (ANALYZE, TIMING OFF) SELECT * FROM crm_leads WHERE _penstock_deleted_at IS NULL"), fmt.Sprintf("rows=%d loops=1", records-1))
					}
				})
			}
			all.Wait()
			for i := range 6 {
				faultCheck(t, server, fmt.Sprint(name, i), 3, 20+i)
			}
		})
	}
}

// answer returns the text in the first row of a query's result.
func answer(t testing.TB, d *DB, sql string) (text string) {
	err := d.Query(t.Context(), sql, func(b arrow.RecordBatch) error {
		if text == "" && b.NumRows() > 0 {
			text = strings.Clone(b.Column(0).ValueStr(0))
		}
		return nil
	})
	assert.NoError(t, err, sql)
	return text
}
