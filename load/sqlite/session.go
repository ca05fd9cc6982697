package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// session implements [sqlmerge.Session] and [sqlmerge.Reader].
type session struct {
	b    *backend
	conn *sql.Conn
}

// Exec implements [sqlmerge.Session].
func (s *session) Exec(ctx context.Context, query string) error {
	_, err := s.Affect(ctx, query)
	return err
}

// Affect implements [sqlmerge.Session].
func (s *session) Affect(ctx context.Context, query string) (int64, error) {
	r, err := s.conn.ExecContext(ctx, query)
	if err != nil {
		return 0, classify(err)
	}
	return r.RowsAffected()
}

// Query implements [sqlmerge.Reader].
func (s *session) Query(ctx context.Context, query string, row func([]driver.Value) error) error {
	rows, err := s.conn.QueryContext(ctx, query)
	if err != nil {
		return classify(err)
	}
	return each(rows, row)
}

// each calls row with each row of a result.
func each(rows *sql.Rows, row func([]driver.Value) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	cells, into, values := make([]any, len(names)), make([]any, len(names)), make([]driver.Value, len(names))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, cell := range cells {
			values[i] = cell
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return classify(rows.Err())
}

// batchRows is the number of rows in a batch of a result.
const batchRows = 4096

// Stream implements [sqlmerge.Reader].
func (s *session) Stream(ctx context.Context, query string, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	w := newBatcher(columns, visit)
	defer w.builder.Release()
	if err := s.Query(ctx, query, w.add); err != nil {
		return err
	}
	return w.flush()
}

// batcher collects rows into batches.
type batcher struct {
	columns *arrow.Schema
	builder *array.RecordBuilder
	rows    int
	visit   func(arrow.RecordBatch) error
}

func newBatcher(columns *arrow.Schema, visit func(arrow.RecordBatch) error) *batcher {
	return &batcher{columns: columns, builder: array.NewRecordBuilder(memory.DefaultAllocator, columns), visit: visit}
}

func (w *batcher) add(v []driver.Value) error {
	for i, f := range w.columns.Fields() {
		if err := appendValue(w.builder.Field(i), schemas.TypeOf(f), v[i]); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	if w.rows++; w.rows < batchRows {
		return nil
	}
	return w.flush()
}

func (w *batcher) flush() error {
	if w.rows == 0 {
		return nil
	}
	w.rows = 0
	b := w.builder.NewRecordBatch()
	defer b.Release()
	return w.visit(b)
}

// Objects implements [sqlmerge.Reader]. It caches what is committed, by the version of the schema.
func (s *session) Objects(ctx context.Context, fresh bool) (map[string]*sqlmerge.Object, error) {
	if fresh {
		return s.readObjects(ctx)
	}
	version := int64(0)
	err := s.Query(ctx, "PRAGMA main.schema_version", func(v []driver.Value) error {
		version, _ = v[0].(int64)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.b.mu.Lock()
	known := s.b.known
	if s.b.version != version {
		known = nil
	}
	s.b.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if known, err = s.readObjects(ctx); err != nil {
		return nil, err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.known, s.b.version = known, version
	return known, nil
}

func (s *session) readObjects(ctx context.Context) (map[string]*sqlmerge.Object, error) {
	all := map[string]*sqlmerge.Object{}
	query := `SELECT m.name, c.name, c.type, c."notnull" AND c.dflt_value IS NULL, c.hidden > 0 FROM main.sqlite_schema AS m, pragma_table_xinfo(m.name, 'main') AS c WHERE m.type = 'table'
		UNION ALL SELECT name, NULL, NULL, NULL, NULL FROM main.sqlite_schema WHERE type = 'view'`
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
		if required, _ := v[3].(int64); required == 1 {
			o.Required = append(o.Required, column)
		}
		if computed, _ := v[4].(int64); computed == 1 {
			o.Computed = append(o.Computed, column)
		}
		return nil
	})
	return all, err
}

// stagedRows is the temporary table of staged rows.
const stagedRows = "_penstock_rows"

// Stage implements [sqlmerge.Session].
func (s *session) Stage(ctx context.Context, staged *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) error {
	defs := make([]string, len(names))
	for i, name := range names {
		defs[i] = sqlmerge.Ident(name) + " " + s.b.Type(load.TypeOf(columns, name))
	}
	table := s.b.Temp(stagedRows)
	for _, q := range []string{"DROP TABLE IF EXISTS " + table, "CREATE TEMP TABLE " + stagedRows + " (" + strings.Join(defs, ", ") + ")"} {
		if err := s.Exec(ctx, q); err != nil {
			return err
		}
	}
	if err := s.insert(ctx, table, staged, columns, names, nil, ""); err != nil {
		return err
	}
	if err := use(table); err != nil {
		return err
	}
	return s.Exec(ctx, "DROP TABLE "+table)
}

// Insert implements [sqlmerge.Session]. It sends only the chosen rows to SQLite.
func (s *session) Insert(ctx context.Context, i sqlmerge.Insertion) error {
	var chosen map[int64]driver.Value // by ordinal
	if i.Chosen != "" {
		chosen = map[int64]driver.Value{}
		err := s.Query(ctx, i.Chosen, func(v []driver.Value) error {
			chosen[v[0].(int64)] = v[len(v)-1]
			return nil
		})
		if err != nil {
			return err
		}
	}
	from := ""
	if i.Table.Mode == schemas.History {
		from = schemas.ColValidFrom
	}
	if !i.Valid {
		for ordinal := range chosen {
			chosen[ordinal] = nil
		}
	}
	return s.insert(ctx, s.b.Place(i.Table.Name), i.Staged, i.Table.Columns, load.Names(i.Table.Columns), chosen, from)
}

// insert inserts the named columns of staged rows, and only the chosen rows if chosen is not nil. The value of the
// column validFrom is the row's value in chosen, or its synced_at if that is nil.
func (s *session) insert(ctx context.Context, table string, staged *load.Staged, columns *arrow.Schema, names []string, chosen map[int64]driver.Value, validFrom string) error {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ")
	stmt, err := s.conn.PrepareContext(ctx, "INSERT INTO "+table+" ("+sqlmerge.Idents(names)+") VALUES ("+marks+")")
	if err != nil {
		return err
	}
	defer stmt.Close()
	valid := slices.Index(names, validFrom)
	values := make([]any, len(names))
	for _, b := range staged.Batches {
		cells, err := encoders(b, columns, names, valid)
		if err != nil {
			return err
		}
		ordinals := b.Column(b.Schema().FieldIndices(schemas.ColOrdinal)[0]).(*array.Int64)
		if err := ctx.Err(); err != nil {
			return err
		}
		for row := range int(b.NumRows()) {
			begin, ok := chosen[ordinals.Value(row)]
			if chosen != nil && !ok {
				continue
			}
			for c, cell := range cells {
				values[c] = cell(row)
			}
			if valid >= 0 && begin != nil {
				values[valid] = begin
			}
			// A context that can end costs a goroutine for each row.
			if _, err := stmt.ExecContext(context.WithoutCancel(ctx), values...); err != nil {
				return classify(err)
			}
		}
	}
	return nil
}

// encoders returns an encoder for each named column of a batch. The column at the index valid holds the values of
// synced_at.
func encoders(b arrow.RecordBatch, columns *arrow.Schema, names []string, valid int) ([]func(row int) any, error) {
	cells := make([]func(row int) any, len(names))
	for i, name := range names {
		to := load.TypeOf(columns, name)
		if i == valid {
			name = schemas.ColSyncedAt
		}
		at := b.Schema().FieldIndices(name)
		if len(at) == 0 {
			cells[i] = func(int) any { return nil }
			continue
		}
		var err error
		if cells[i], err = encoder(b.Column(at[0]), schemas.TypeOf(b.Schema().Field(at[0])), to); err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
	}
	return cells, nil
}

// Commit implements [sqlmerge.Session].
func (s *session) Commit(ctx context.Context) error { return s.Exec(ctx, "COMMIT") }

// Rollback implements [sqlmerge.Session]. Some errors, and the end of a context, have already rolled back.
func (s *session) Rollback() error {
	err := s.Exec(context.Background(), "ROLLBACK")
	if err == nil || strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	return errors.Join(err, s.b.disconnect())
}

// End implements [sqlmerge.Session].
func (s *session) End() { <-s.b.writer }
