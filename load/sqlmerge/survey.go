package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Digester is a backend that computes digests of rows. The function that [Backend].Read calls sees one snapshot.
type Digester interface {
	// Length returns an expression for the number of characters of a text. The expression has the SQL type of texts. Text
	// returns an expression that converts the value of a key, which is an integer or a text, to a text.
	Length(text string) string
	Text(expr string) string

	// Digest returns an aggregate of texts. It sorts the texts by their bytes, joins them by commas, and computes the
	// SHA-256 in lower-case hexadecimal digits.
	Digest(text string) string

	// DigestsAtOnce returns for how many tables one statement may compute digests.
	DigestsAtOnce() int
}

// surveyed has the results of a survey for one stream, and the stream's position at that time.
type surveyed struct {
	load.StreamSurvey
	at position
}

// Survey reads many streams in one snapshot; see [load.Surveyor].
func (d *Store) Survey(ctx context.Context, streams []load.Surveyed, own []load.SurveyedOwn) error {
	if _, able := d.b.(Digester); !able {
		return fmt.Errorf("survey: %w", errors.ErrUnsupported)
	}
	if len(streams) == 0 {
		return nil
	}
	d.expect(streams)
	found := map[state.Key]surveyed{}
	err := d.b.Read(ctx, func(r Reader) error {
		clear(found) // remove the results of an attempt that failed
		return d.survey(ctx, r, streams, own, found)
	})
	if err != nil {
		return fmt.Errorf("survey the streams: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range streams {
		if _, unmoved := d.surveyed[s.Key]; !unmoved {
			continue
		}
		if d.surveyed[s.Key] = found[s.Key]; found[s.Key].at.sequence > 0 {
			d.positions[s.Key] = found[s.Key].at
		}
	}
	return nil
}

// expect forgets the last survey of the pipeline and the source, and adds an empty entry to d.surveyed for each stream
// that is surveyed now. If a transaction of this process ends during the survey, it removes the entry of its stream.
func (d *Store) expect(streams []load.Surveyed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.surveyed, func(k state.Key, _ surveyed) bool {
		return k.Pipeline == streams[0].Key.Pipeline && k.Source == streams[0].Key.Source
	})
	for _, s := range streams {
		d.surveyed[s.Key] = surveyed{}
	}
}

// SurveyOf returns the results of the last survey for a stream; see [load.Surveyor].
func (d *Store) SurveyOf(k state.Key) (load.StreamSurvey, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.surveyed[k]
	return s.StreamSurvey, s.at.sequence > 0
}

func (d *Store) survey(ctx context.Context, r Reader, streams []load.Surveyed, own []load.SurveyedOwn, found map[state.Key]surveyed) error {
	var names, internal []string
	for _, s := range streams {
		if s.Table != "" {
			names = append(names, s.Table)
		}
	}
	for _, o := range own {
		internal = append(internal, o.Table)
	}
	c := newCatalog(d.b, r, load.Pass{})
	if err := c.look(ctx, slices.Concat([]string{load.State.Name, load.Changes.Name}, internal, names)...); err != nil {
		return err
	}
	if err := c.read(ctx, slices.Concat(names, internal)...); err != nil {
		return err
	}
	if c.live[load.State.Name] == nil || c.live[load.Changes.Name] == nil { // before the first run, or dropped by hand
		return d.ownRows(ctx, r, c, streams[0].Key, own)
	}
	at, err := positionsOf(ctx, c, streams[0].Key)
	if err != nil {
		return err
	}
	existing := load.ExistingTables(c.made, c.live)
	for _, s := range streams {
		p, o := at[s.Key.Stream], c.live[s.Table]
		if p.sequence == 0 || o != nil && o.Hidden {
			continue // the stream has no commit, or its rows cannot be read; the run reads it in the usual way
		}
		st := load.StreamSurvey{Cursor: p.cursor}
		if st.State, err = c.stateOf(s.Table); err != nil {
			return err
		}
		for _, t := range existing {
			if s.Table != "" && inFamilies(t.Name, []string{s.Table}) {
				st.Tables = append(st.Tables, t)
			}
		}
		found[s.Key] = surveyed{st, p}
	}
	if err := d.digests(ctx, r, c, streams, found); err != nil {
		return err
	}
	if err := d.current(ctx, r, c, streams, found); err != nil {
		return err
	}
	return d.ownRows(ctx, r, c, streams[0].Key, own)
}

// positionsOf reads the positions of streams of one pipeline and one source, by stream.
func positionsOf(ctx context.Context, c *catalog, k state.Key) (map[string]position, error) {
	_, shared := c.live[load.State.Name].Types[schemas.ColSource]
	if err := load.CheckSharing(shared, k.Source); err != nil {
		return nil, err
	}
	all := map[string]position{}
	return all, readPositions(ctx, c.d, c.r, whereSource(c.d, k), func(stream string, p position) { all[stream] = p })
}

// digests finds out for each stream whether its root table is empty, and the digest of its rows. It adds both to the
// results in the map `found`.
func (d *Store) digests(ctx context.Context, r Reader, c *catalog, streams []load.Surveyed, found map[state.Key]surveyed) error {
	var parts []string
	for i, s := range streams {
		if _, ok := found[s.Key]; !ok {
			continue
		}
		if o := c.live[s.Table]; o != nil && o.isTable() && c.made[s.Table].Name != "" {
			parts = append(parts, d.digestSQL(i, c, s.Key.Source, c.made[s.Table]))
		}
	}
	for some := range slices.Chunk(parts, d.b.(Digester).DigestsAtOnce()) {
		err := r.Query(ctx, strings.Join(some, " UNION ALL "), func(v []driver.Value) error {
			i, _ := v[0].(int64)
			st := found[streams[i].Key]
			rows, _ := v[1].(int64)
			st.State.Empty = rows == 0
			if n, ok := v[2].(int64); ok && n <= load.MostDigested {
				forgotten, _ := v[4].(int64)
				st.Rows, st.Forgotten = n, forgotten > 0
				st.Digest, _ = v[3].(string)
			}
			found[streams[i].Key] = st
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// digestSQL returns a query for one table. The query has five columns: the value of the parameter i, whether the table
// has a row, the number of its current rows, the digest of these rows, and the number of current rows without a hash.
// The last three columns are null if the table cannot have a digest.
func (d *Store) digestSQL(i int, c *catalog, source string, t schemas.Table) string {
	from := rowsSQL(d.b, t, source)
	some := fmt.Sprintf("%d, (SELECT count(*) FROM (SELECT 1 FROM %s LIMIT 1) AS t)", i, from)
	if !c.untouched(t.Name) || t.Mode == schemas.Append || !load.Digestible(t) {
		return "SELECT " + some + ", CAST(NULL AS " + d.b.Type(schemas.Int64) + "), CAST(NULL AS " + d.b.Type(schemas.Text) + "), CAST(NULL AS " + d.b.Type(schemas.Int64) + ")"
	}
	row, by := "", d.b.(Digester)
	for _, k := range t.Key {
		value := by.Text("t." + Ident(k))
		row += by.Length(value) + " || ':' || " + value + " || "
	}
	in := &target{Table: t, in: &scope{Dialect: d.b, traits: d.b.Traits(), source: source}}
	hash := "coalesce(t." + schemas.ColHash + ", '')"
	return fmt.Sprintf("SELECT %s, count(*), %s, %s FROM (SELECT %s%s AS x, %s AS h FROM %s AND %s LIMIT %d) AS t",
		some, by.Digest("t.x"), countIf("t.h = ''"), row, hash, hash, from, in.current("t."), load.MostDigested+1)
}

// The type kept holds the rows of one table that a survey has read. One query reads several tables whose columns have
// different types, so it returns all values as texts.
type kept struct {
	key     state.Key
	table   string
	columns *arrow.Schema
	rows    [][]any
}

// The method current() adds to each stream the requested columns of its current rows. It uses one statement for all
// streams.
func (d *Store) current(ctx context.Context, r Reader, c *catalog, streams []load.Surveyed, found map[state.Key]surveyed) error {
	var all []*kept
	width, left := 0, int64(load.MostCurrent)
	for _, s := range streams {
		st := found[s.Key]
		if len(s.Columns) == 0 || st.Digest == "" || st.Rows > left {
			continue
		}
		if columns, ok := load.CurrentColumns(c.made[s.Table], s.Columns); ok {
			all = append(all, &kept{key: s.Key, table: s.Table, columns: columns})
			width, left = max(width, columns.NumFields()), left-st.Rows
		}
	}
	if all == nil {
		return nil
	}
	parts := make([]string, len(all))
	for i, k := range all {
		t := &target{Table: c.made[k.table], in: &scope{Dialect: d.b, traits: d.b.Traits(), source: k.key.Source}}
		parts[i] = textsSQL(d.b, i, width, k.columns) + t.rows() + " AND " + t.current("t.")
	}
	if err := keep(ctx, r, parts, all); err != nil {
		return err
	}
	for _, k := range all {
		var err error
		st := found[k.key]
		if st.Current, err = load.Rows(schemas.Table{Columns: k.columns}, k.rows...); err != nil {
			return err
		}
		found[k.key] = st
	}
	return nil
}

// keep runs the given queries as one statement. It adds the rows of the query parts[i] to all[i].
func keep(ctx context.Context, r Reader, parts []string, all []*kept) error {
	return r.Query(ctx, strings.Join(parts, " UNION ALL "), func(v []driver.Value) error {
		i, _ := v[0].(int64)
		return all[i].add(v[1:])
	})
}

// textsSQL returns the beginning of a query, up to the word FROM. The query selects the value of the parameter i, then
// the columns as texts. If there are fewer columns than the parameter `width` says, nulls fill the rest.
func textsSQL(b Backend, i, width int, columns *arrow.Schema) string {
	values := []string{fmt.Sprint(i)}
	for _, f := range columns.Fields() {
		value := "t." + Ident(f.Name)
		if schemas.SameType(schemas.TypeOf(f), schemas.Timestamp) {
			value = b.Micros(value)
		}
		values = append(values, b.(Digester).Text(value))
	}
	for len(values) <= width {
		values = append(values, "CAST(NULL AS "+b.Type(schemas.Text)+")")
	}
	return "SELECT " + strings.Join(values, ", ") + " FROM "
}

// add adds a row. Its values are texts or nil.
func (k *kept) add(values []driver.Value) (err error) {
	row := make([]any, k.columns.NumFields())
	for i, f := range k.columns.Fields() {
		text, ok := values[i].(string)
		if !ok {
			continue
		}
		var number int64
		switch of := schemas.TypeOf(f); {
		case schemas.SameType(of, schemas.Int64):
			number, err = strconv.ParseInt(text, 10, 64)
			row[i] = number
		case schemas.SameType(of, schemas.Timestamp):
			number, err = strconv.ParseInt(text, 10, 64)
			row[i] = time.UnixMicro(number).UTC()
		case schemas.SameType(of, schemas.Bool):
			row[i], err = strconv.ParseBool(text)
		default:
			row[i] = text
		}
		if err != nil {
			return err
		}
	}
	k.rows = append(k.rows, row)
	return nil
}

// ownRows reads penstock's own tables; see [load.SurveyedOwn]. It uses one statement for all tables.
func (d *Store) ownRows(ctx context.Context, r Reader, c *catalog, k state.Key, own []load.SurveyedOwn) error {
	var parts []string
	var all []*kept
	var visit []func(arrow.RecordBatch) error
	width := 0
	for _, o := range own {
		width = max(width, len(o.Columns))
	}
	for _, o := range own {
		if c.live[o.Table] == nil {
			continue
		}
		t, err := c.table(o.Table)
		if err != nil {
			return err
		}
		columns, err := load.Select(t.Columns, o.Columns)
		if err != nil {
			return err
		}
		parts = append(parts, "("+textsSQL(d.b, len(all), width, columns)+ownFrom(d.b, t, k)+")")
		all, visit = append(all, &kept{columns: columns}), append(visit, o.Visit)
	}
	if parts == nil {
		return nil
	}
	if err := keep(ctx, r, parts, all); err != nil {
		return fmt.Errorf("read penstock's own tables: %w", err)
	}
	for i, k := range all {
		if len(k.rows) == 0 {
			continue
		}
		b, err := load.Rows(schemas.Table{Columns: k.columns}, k.rows...)
		if err == nil {
			err = visit[i](b)
			b.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownFrom returns the end of a query for rows of one of penstock's own tables: the part that follows FROM.
func ownFrom(d Dialect, t schemas.Table, k state.Key) string {
	where := rowsSQL(d, t, k.Source) + " AND t.pipeline = " + d.Literal(k.Pipeline)
	most := load.MostOwnRows + 1
	switch t.Name {
	case load.Rejects.Name:
		where += " AND t.resolved_at IS NULL"
	case load.Certificates.Name:
		where += " AND (t.stream, t.run) IN (SELECT t.stream, max(t.run) FROM " + where + " GROUP BY t.stream)"
	case load.Runs.Name:
		where, most = where+" ORDER BY t.run DESC", load.MostRuns
	}
	return fmt.Sprintf("%s LIMIT %d", where, most)
}

// The method untouched() reports whether all tables of a family are as penstock has recorded them, and safe to write
// to.
func (c *catalog) untouched(name string) bool {
	for _, made := range c.made {
		if !inFamilies(made.Name, []string{name}) {
			continue
		}
		if o := c.live[made.Name]; o == nil || len(o.Unsafe) > 0 {
			return false
		}
		if _, err := c.table(made.Name); err != nil {
			return false
		}
	}
	return true
}
