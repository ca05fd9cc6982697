//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"

	"github.com/penstock-data/penstock/load/sqlmerge"
)

// Objects implements [sqlmerge.Reader]. It reads the catalog once after the file was attached, because no other process
// can change the file then.
func (s *session) Objects(ctx context.Context, _ []string) (map[string]*sqlmerge.Object, error) {
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known != nil {
		return e.known, nil
	}
	all, err := readObjects(ctx, s)
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

func readObjects(ctx context.Context, s *session) (map[string]*sqlmerge.Object, error) {
	all := map[string]*sqlmerge.Object{}
	query := "SELECT table_name, column_name, data_type, NOT is_nullable AND column_default IS NULL FROM duckdb_columns() " +
		"WHERE database_name = 'db' AND schema_name = 'main'" +
		" UNION ALL SELECT view_name, NULL, NULL, NULL FROM duckdb_views() " +
		"WHERE database_name = 'db' AND schema_name = 'main'"
	err := s.Query(ctx, query, func(v []driver.Value) error {
		name := v[0].(string)
		o := all[name]
		if o == nil {
			o = &sqlmerge.Object{Types: map[string]string{}}
			all[name] = o
		}
		if v[1] == nil {
			o.View = true
			return nil
		}
		column := v[1].(string)
		o.Types[column] = v[2].(string)
		if required, _ := v[3].(bool); required {
			o.Required = append(o.Required, column)
		}
		return nil
	})
	return all, err
}
