package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock-data/penstock/load/postgres/codec"
)

// stream runs the function f in a read-only transaction. f gets a function, to which it passes the batches of the
// result. That function passes them on to visit. If the connection is lost before the first batch, stream runs f again.
// After the first batch, stream fails, because visit would otherwise get rows twice.
func (d *DB) stream(ctx context.Context, visit func(arrow.RecordBatch) error, f func(*session, func(arrow.RecordBatch) error) error) error {
	var failed error
	begun := false
	err := d.withReadTx(ctx, func(s *session) error {
		failed = f(s, func(b arrow.RecordBatch) error {
			begun = true
			return visit(b)
		})
		if begun {
			return nil
		}
		return failed
	})
	if err == nil {
		err = failed
	}
	return err
}

// Query implements [load.Querier]. The statement runs in a read-only transaction. Names without a schema mean tables
// of the destination's schema.
func (d *DB) Query(ctx context.Context, sql string, visit func(arrow.RecordBatch) error) error {
	q, err := parseQuery(sql)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	err = d.stream(ctx, visit, func(s *session, visit func(arrow.RecordBatch) error) error {
		defer s.deallocateQuery()
		stmt, name, err := s.prepareQuery(ctx, q)
		if err != nil {
			return err
		}
		return s.answer(ctx, stmt, name, visit)
	})
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// answer runs a prepared statement and passes on its result.
func (s *session) answer(ctx context.Context, stmt *pgconn.StatementDescription, name string, visit func(arrow.RecordBatch) error) error {
	if len(stmt.ParamOIDs) > 0 {
		return errors.New("statements with parameters are not supported")
	}
	answer := codec.NewAnswer(stmt.Fields, visit)
	defer answer.Release()
	err := s.receive(ctx, answer.Add, func(ctx context.Context) *pgconn.ResultReader {
		return s.pg.ExecPrepared(ctx, name, nil, nil, answer.Formats())
	})
	if err != nil {
		return err
	}
	return answer.End()
}
