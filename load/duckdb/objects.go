//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"

	"github.com/penstock-data/penstock/load/sqlmerge"
)

// Objects implements [sqlmerge.Reader]. It reads the catalog only once each time the file is attached. While this
// process has the file attached, no other process can change it.
func (s *session) Objects(ctx context.Context, _ []string) (map[string]*sqlmerge.Object, error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known != nil {
		return e.known, nil
	}
	all, err := sqlmerge.ReadObjects(ctx, s, "SELECT table_name, column_name, data_type, NOT is_nullable AND column_default IS NULL, false FROM duckdb_columns() "+
		"WHERE database_name = 'db' AND schema_name = 'main' UNION ALL SELECT view_name, NULL, 'VIEW', NULL, NULL FROM duckdb_views() "+
		"WHERE database_name = 'db' AND schema_name = 'main'", nil)
	if err == nil {
		e.known = all
	}
	return all, err
}

// forgetObjects clears the cache. It is called after the file was attached or its tables changed.
func (e *engine) forgetObjects() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = nil
}
