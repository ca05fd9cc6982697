//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
)

// Query implements [load.Querier]. The statement runs in a read-only transaction and can open no other file.
func (d *DB) Query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) error {
	if _, err := os.Stat(d.o.Path); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	e, release, err := d.acquire(ctx, querying)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer release()
	if err := e.query(ctx, sql, each); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

func (e *engine) query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) (err error) {
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.conn.Close()) }()
	for _, q := range []string{"USE db", "BEGIN TRANSACTION READ ONLY"} {
		if err := s.Exec(ctx, q); err != nil {
			return err
		}
	}
	if sql, err = s.checkStatement(ctx, sql); err != nil {
		return err
	}
	return s.stream(ctx, sql, each)
}
