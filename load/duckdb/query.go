//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
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
		if err := s.exec(ctx, q); err != nil {
			return err
		}
	}
	if sql, err = s.checkStatement(ctx, sql); err != nil {
		return err
	}
	return s.stream(ctx, sql, each)
}

// stream calls the function each with every batch of the result as it arrives. If the result has no rows, it calls the
// function once, with an empty batch.
func (s *session) stream(ctx context.Context, sql string, each func(arrow.RecordBatch) error) error {
	r, err := s.arrow.QueryContext(ctx, sql)
	if err != nil {
		return s.classify(err)
	}
	defer r.Release()
	some := false
	for r.Next() {
		some = true
		if err := each(r.RecordBatch()); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return s.classify(err)
	}
	if some {
		return nil
	}
	return emptyBatch(r.Schema(), each)
}

// emptyBatch calls the function each with a batch without rows.
func emptyBatch(schema *arrow.Schema, each func(arrow.RecordBatch) error) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	batch := b.NewRecordBatch()
	defer batch.Release()
	return each(batch)
}
