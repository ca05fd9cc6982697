package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Store is a destination in an SQL database. Its methods are safe for concurrent use. If the backend is not [Pooled],
// transactions exclude each other: the first Apply of a transaction waits until no other transaction is between its
// first Apply and its end.
type Store struct {
	b      Backend
	pooled Pooled       // nil: transactions exclude each other
	tables atomic.Int64 // number of the last table of carried keys
	trims  load.TrimDays

	mu        sync.Mutex
	positions map[state.Key]position // positions as last read or committed
	claimed   map[state.Key]claimed  // the claim of each stream to its table, as last committed
	surveyed  map[state.Key]surveyed // kept until the stream's next transaction ends; zero: unknown
	passes    map[state.Key]*pass
	droppable []string // tables of carried keys that are no longer needed
}

// New returns a store over a database.
func New(b Backend) *Store {
	pooled, _ := b.(Pooled)
	return &Store{b: b, pooled: pooled, positions: map[state.Key]position{}, claimed: map[state.Key]claimed{}, surveyed: map[state.Key]surveyed{}, passes: map[state.Key]*pass{}}
}

// position is the row of one stream in _penstock_state. Before the first commit, a stream has no row, or a row with the
// sequence 0. A backend creates such a row so that it can lock the row.
type position struct {
	cursor   state.Cursor
	sequence int64 // 0: before the first commit
	moved    int64 // time of the stream's last commit, in microseconds since 1970
}

// Cursor returns the committed cursor; see [load.Destination].
func (d *Store) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	p, err := d.position(ctx, k)
	return p.cursor, err
}

// position reads a stream's position from the database.
func (d *Store) position(ctx context.Context, k state.Key) (p position, err error) {
	err = d.b.Read(ctx, func(r Reader) error {
		p, err = readPosition(ctx, newCatalog(d.b, r, load.Pass{}), k)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("read cursor%s: %w", load.OfStream(k.Stream), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.positions[k] = p
	return p, nil
}

func readPosition(ctx context.Context, c *catalog, k state.Key) (p position, err error) {
	err = c.look(ctx, load.State.Name)
	there := c.live[load.State.Name]
	if err != nil || there == nil {
		return p, err
	}
	_, shared := there.Types[schemas.ColSource]
	if err := load.CheckSharing(shared, k.Source); err != nil {
		return p, err
	}
	err = readPositions(ctx, c.d, c.r, whereKey(c.d, k), func(_ string, there position) { p = there })
	return p, err
}

// readPositions reads positions of streams. The text in where is the part of the query after WHERE.
func readPositions(ctx context.Context, d Dialect, r Reader, where string, found func(stream string, p position)) error {
	query := `SELECT stream, "cursor", sequence, ` + d.Micros("updated_at") + " FROM " + d.Place(load.State.Name) + " WHERE " + where
	return r.Query(ctx, query, func(v []driver.Value) error {
		var p position
		stream, _ := v[0].(string)
		cursor, _ := v[1].(string)
		p.cursor = state.Cursor(cursor)
		p.sequence, _ = v[2].(int64)
		p.moved, _ = v[3].(int64)
		found(stream, p)
		return nil
	})
}

// whereKey returns the condition for a stream's row in _penstock_state.
func whereKey(d Dialect, k state.Key) string {
	return whereSource(d, k) + " AND stream = " + d.Literal(k.Stream)
}

// whereSource returns the condition for the rows of the pipeline and the source of k in _penstock_state.
func whereSource(d Dialect, k state.Key) string {
	where := "pipeline = " + d.Literal(k.Pipeline)
	if k.Source != "" {
		where += " AND " + schemas.ColSource + " = " + d.Literal(k.Source)
	}
	return where
}

// Tables returns a table and its children; see [load.Destination].
func (d *Store) Tables(ctx context.Context, name string) (tables []schemas.Table, err error) {
	err = d.b.Read(ctx, func(r Reader) error {
		c, err := readCatalog(ctx, d.b, r, name)
		if err != nil {
			return err
		}
		tables = load.ExistingTables(c.made, c.live)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tables of %s: %w", name, err)
	}
	return tables, nil
}

// Share returns the destination restricted to the rows of one source; see [load.Sharer].
func (d *Store) Share(source string) load.Destination {
	return load.SourcePart{Destination: unclosed{d}, Source: source, ScanOf: d.scanOf}
}

// unclosed is a destination whose Close does nothing, because the backend closes the database.
type unclosed struct{ *Store }

// Close does nothing.
func (unclosed) Close() error { return nil }

// Scan reads all rows of a table; see [load.Destination].
func (d *Store) Scan(ctx context.Context, table string, columns []string, each func(arrow.RecordBatch) error) error {
	return d.scanOf(ctx, "", table, columns, each)
}

// scanOf scans the rows of one source, or all rows if source is "".
func (d *Store) scanOf(ctx context.Context, source, table string, columns []string, each func(arrow.RecordBatch) error) error {
	err := d.b.Read(ctx, func(r Reader) error {
		t, ok, err := d.readTable(ctx, r, table)
		if err != nil || !ok {
			return err
		}
		if columns == nil && source != "" {
			columns = load.Unshared(t.Columns)
		}
		schema, err := load.Select(t.Columns, columns)
		if err != nil {
			return err
		}
		return r.Stream(ctx, "SELECT "+Idents(load.Names(schema))+" FROM "+rowsSQL(d.b, t, source), schema, func(b arrow.RecordBatch) error {
			if b.NumRows() == 0 {
				return nil
			}
			return each(b)
		})
	})
	if err != nil {
		return fmt.Errorf("scan %s: %w", table, err)
	}
	return nil
}

// readTable returns the named table, and false if it does not exist. It returns an error if the table was changed by
// hand, or was not made by penstock.
func (d *Store) readTable(ctx context.Context, r Reader, name string) (schemas.Table, bool, error) {
	c, err := readCatalog(ctx, d.b, r, name)
	if err != nil {
		return schemas.Table{}, false, err
	}
	if c.live[name] == nil {
		return schemas.Table{}, false, nil
	}
	if _, ok := c.made[name]; ok {
		t, err := c.table(name)
		return t, true, err
	}
	for _, own := range load.OwnTables() {
		if own.Name == name {
			if _, shared := c.live[name].Types[schemas.ColSource]; shared {
				own = load.ShareTable(own)
			}
			return own, true, nil
		}
	}
	return schemas.Table{}, false, errors.New("it was not made by penstock")
}

// writePosition replaces the stored position by the new position, if it has not changed since the transaction began.
func (x *tx) writePosition(ctx context.Context, to position) error {
	if err := x.ownTables(ctx); err != nil {
		return err
	}
	if err := x.c.recordOwner(x.sql, x.owner, x.key); err != nil {
		return err
	}
	table := x.in.Place(load.State.Name)
	n, err := x.sql.Affect(ctx, fmt.Sprintf(`UPDATE %s SET "cursor" = %s, sequence = %d, updated_at = %s WHERE %s AND "cursor" = %s AND sequence = %d`,
		table, x.in.Literal(string(to.cursor)), to.sequence, x.in.Timestamp(x.in.when), whereKey(x.in, x.key), x.in.Literal(string(x.from)), x.at.sequence))
	switch {
	case err != nil:
		return fmt.Errorf("move cursor: %w", err)
	case n == 1:
		return nil
	case x.at.sequence > 0:
		return state.ErrMoved
	}
	names := load.Names(x.in.ownTable(load.State).Columns)
	values := []string{
		x.in.Literal(x.key.Pipeline), x.in.Literal(x.key.Stream), x.in.Literal(string(to.cursor)), fmt.Sprint(to.sequence), x.in.Timestamp(x.in.when),
	}
	if x.key.Source != "" {
		values = append([]string{x.in.Literal(x.key.Source)}, values...)
	}
	return x.sql.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, Idents(names), strings.Join(values, ", ")))
}
