package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// How much of a table is read to count what is beyond the bound of a stream's
// columns. // Invariant 6
const (
	maxRestBytes  = 16 << 20
	maxRestRows   = 1_000_000
	maxRestFields = 100_000
)

// overflow is what a destination keeps of a stream in [schemas.ColRest]: the members of
// its records that are beyond the bound of columns and child tables.
type overflow struct {
	Destination string    `json:"destination"`
	Since       time.Time `json:"since"`   // when the table got the column
	Records     int64     `json:"records"` // that have such members
	Fields      int       `json:"fields"`  // different ones: a member of a member is one of its own
	Names       []string  `json:"names"`   // JSON pointers of the first few
	Partial     bool      `json:"partial"` // there may be more: a part of the table was read
}

// overflows are the times at which tables of d got a column for what is beyond the
// bound, by table.
func overflows(ctx context.Context, d load.Destination) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	err := scan(ctx, d, load.Changes, func(r row) error {
		if r.text("action") == load.ActionAdd && r.text("column") == schemas.ColRest {
			all[r.text("table")] = r.time("at")
		}
		return nil
	})
	return all, err
}

// errEnough ends a scan that has read as much as it may.
var errEnough = errors.New("enough of the table is read")

// readOverflow counts what stands in the column of a table that has it since then.
func readOverflow(ctx context.Context, d load.Destination, name string, t schemas.Table, since time.Time) (overflow, error) {
	mark := schemas.ColDeletedAt
	if t.Mode == schemas.History {
		mark = schemas.ColValidTo
	}
	o := overflow{Destination: name, Since: since}
	seen, rows, size := map[string]bool{}, 0, 0
	err := d.Scan(ctx, t.Name, []string{mark, schemas.ColRest}, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if rows++; rows > maxRestRows || size > maxRestBytes {
				return errEnough
			}
			if rest := (row{b, i}).text(schemas.ColRest); rest != "" && b.Column(0).IsNull(i) {
				size += len(rest)
				o.Records++
				o.count(rest, seen)
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		o.Partial, err = true, nil
	}
	return o, err
}

// count notes the members of one record's rest. A list is one member, whatever it holds.
func (o *overflow) count(rest string, seen map[string]bool) {
	d := jsontext.NewDecoder(bytes.NewBufferString(rest), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for len(seen) <= maxRestFields {
		kind := d.PeekKind()
		if _, at := d.StackIndex(d.StackDepth()); kind == '{' || kind == '}' || d.StackDepth() > 0 && at%2 == 0 { // a name comes
			if _, err := d.ReadToken(); err != nil {
				return
			}
			continue
		}
		if d.SkipValue() != nil {
			return
		}
		pointer := string(d.StackPointer())
		if seen[pointer] {
			continue
		}
		seen[strings.Clone(pointer)] = true
		if o.Fields++; len(o.Names) < 3 {
			o.Names = append(o.Names, short(pointer))
		}
	}
	o.Partial = true
}

// short is a JSON pointer as a line has room for it.
func short(pointer string) string {
	if most := 80; len(pointer) > most {
		return strings.ToValidUTF8(pointer[:most], "") + "…"
	}
	return pointer
}

// String says how much it is, since when, and where.
func (o overflow) String() string {
	atLeast := ""
	if o.Partial {
		atLeast = "at least "
	}
	names := strings.Join(o.Names, ", ")
	if o.Fields > len(o.Names) {
		names += ", …"
	}
	return fmt.Sprintf("%s%s of %s have no column: they are in %s of %s, since %s: %s", atLeast, plural(o.Fields, "member"),
		plural(int(o.Records), "record"), schemas.ColRest, o.Destination, o.Since.Local().Format(time.DateTime), names)
}

// remedy is what gives the members columns.
func (o overflow) remedy(s schemas.Stream) string {
	columns, tables := s.Bounds()
	return fmt.Sprintf("the stream may have %s and %s; a larger max_columns or max_tables of it gives them a place in the next full pass, `select` or `drop` leaves out what nobody needs",
		plural(columns, "column"), plural(tables, "child table"))
}

// print writes it among the facts of a stream.
func (o overflow) print(w io.Writer, s schemas.Stream) {
	if o.Records == 0 {
		return
	}
	fmt.Fprintf(w, "# %-10s %s\n", "rest", printable(o.String(), false))
	fmt.Fprintf(w, "#            - %s\n", o.remedy(s))
}

// checkOverflow tells, of the streams that pipelines load into d, which have members
// beyond their bound of columns.
func (a *app) checkOverflow(ctx context.Context, c *config.Config, d config.Destination, dest load.Destination) []finding {
	since, err := overflows(ctx, dest)
	var all []finding
	told := map[string]bool{}
	for _, p := range c.Pipelines {
		if len(since) == 0 || !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.Name }) {
			continue
		}
		streams, failed := c.Select(p, nil)
		err = errors.Join(err, failed)
		for _, s := range streams {
			at, ok := since[s.Table.Name]
			if !ok || told[s.Name] {
				continue
			}
			told[s.Name] = true
			o, failed := readOverflow(ctx, dest, d.Name, s.Table, at)
			if err = errors.Join(err, failed); o.Records > 0 {
				all = append(all, finding{Part: "stream " + s.Name, OK: true, Detail: o.String(), Hint: o.remedy(s.Stream)})
			}
		}
	}
	if err != nil {
		a.log.Warn("what is beyond the bound of columns is left out", "destination", d.Name, "error", err)
	}
	return all
}
