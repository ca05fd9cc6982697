package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Digester is a [Pooled] backend that computes digests of rows.
type Digester interface {
	// Length returns an expression for the number of characters of a text, as text. Text returns an expression that
	// converts the value of a key, which is an integer or a text, to text.
	Length(text string) string
	Text(expr string) string

	// Digest returns an aggregate of texts: the lower-case hexadecimal SHA-256 of them, sorted by their bytes and joined
	// by commas.
	Digest(text string) string
}

// surveyed has the results of a survey for one stream, and the stream's position at that time.
type surveyed struct {
	load.StreamSurvey
	at position
}

// Survey reads many streams in one snapshot; see [load.Surveyor].
func (d *Store) Survey(ctx context.Context, streams []load.Surveyed) error {
	if _, able := d.b.(Digester); !able || d.pooled == nil {
		return fmt.Errorf("survey: %w", errors.ErrUnsupported)
	}
	if len(streams) == 0 {
		return nil
	}
	d.expect(streams)
	found := map[state.Key]surveyed{}
	err := d.b.Read(ctx, func(r Reader) error {
		clear(found) // remove the results of an attempt that failed
		return d.survey(ctx, r, streams, found)
	})
	if err != nil {
		return fmt.Errorf("survey the streams: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range streams {
		if _, unmoved := d.surveyed[s.Key]; unmoved {
			d.surveyed[s.Key] = found[s.Key]
		}
	}
	return nil
}

// expect forgets the last survey of the pipeline and the source, and marks the streams that are surveyed now. A
// transaction of this process that ends during the survey removes the mark.
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

func (d *Store) survey(ctx context.Context, r Reader, streams []load.Surveyed, found map[state.Key]surveyed) error {
	names := make([]string, len(streams))
	for i, s := range streams {
		names[i] = s.Table
	}
	c := newCatalog(d.b, r, load.Pass{})
	if err := c.look(ctx, append([]string{load.State.Name}, names...)...); err != nil {
		return err
	}
	if err := c.read(ctx, names...); err != nil {
		return err
	}
	if c.live[load.State.Name] == nil || c.live[load.Changes.Name] == nil {
		return nil // before the first run
	}
	at, err := positionsOf(ctx, c, streams[0].Key)
	if err != nil {
		return err
	}
	made, err := runsThatMade(ctx, d.b, r, "")
	if err != nil {
		return err
	}
	existing := load.ExistingTables(c.made, c.live)
	for _, s := range streams {
		p := at[s.Key.Stream]
		if p.sequence == 0 {
			continue // a stream without a commit is read in the usual way
		}
		st := load.StreamSurvey{Cursor: p.cursor}
		if st.State, err = c.stateOf(s.Table); err != nil {
			return err
		}
		st.State.Made = made[s.Table]
		for _, t := range existing {
			if inFamilies(t.Name, []string{s.Table}) {
				st.Tables = append(st.Tables, t)
			}
		}
		found[s.Key] = surveyed{st, p}
	}
	return d.digests(ctx, r, c, streams, found)
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

// digests adds to the streams whether their root tables are empty, and the digests of their rows. It uses one
// statement.
func (d *Store) digests(ctx context.Context, r Reader, c *catalog, streams []load.Surveyed, found map[state.Key]surveyed) error {
	var parts []string
	for i, s := range streams {
		_, ok := found[s.Key]
		if o := c.live[s.Table]; ok && o != nil && o.isTable() && c.made[s.Table].Name != "" {
			parts = append(parts, d.digestSQL(i, c, s.Key.Source, c.made[s.Table]))
		}
	}
	if parts == nil {
		return nil
	}
	return r.Query(ctx, strings.Join(parts, " UNION ALL "), func(v []driver.Value) error {
		i, _ := v[0].(int64)
		s := streams[i]
		st := found[s.Key]
		some, _ := v[1].(int64)
		st.State.Empty = some == 0
		if n, ok := v[2].(int64); ok && n <= load.MostDigested {
			forgotten, _ := v[4].(int64)
			st.Rows, st.Forgotten = n, forgotten > 0
			st.Digest, _ = v[3].(string)
		}
		found[s.Key] = st
		return nil
	})
}

// digestSQL returns a query with five columns: the number i, whether the table has a row, the number of its current
// rows, their digest, and the number of them without a hash. The last three columns are null if the table cannot have a
// digest.
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

// untouched reports whether penstock can write to the tables of a family as it has recorded them.
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
