package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Limits of [ReadOverflow]: how much of a table it reads, and how many distinct members it counts. // Invariant 6
const (
	maxRestBytes  = 16 << 20
	maxRestRows   = 1_000_000
	maxRestFields = 100_000
)

// Overflow describes the members of a stream's records that have no column of their own, because the stream has reached
// its limit of columns or child tables. A destination stores them in the column [schemas.ColRest].
type Overflow struct {
	Destination string    `json:"destination"`
	Since       time.Time `json:"since"`   // when the table got the column ColRest
	Records     int64     `json:"records"` // number of records with such members
	Fields      int       `json:"fields"`  // number of distinct members; each member of a nested object counts
	Names       []string  `json:"names"`   // JSON pointers of the first three members
	Partial     bool      `json:"partial"` // only part of the table was read, so there may be more members

	Limited schemas.Stream // the stream with the limits of its pipeline
}

// Overflows returns when each table of d got the column [schemas.ColRest]. Tables without the column are not in the
// map.
func Overflows(ctx context.Context, d load.Destination) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	err := Scan(ctx, d, load.Changes, func(r Row) error {
		if r.Text("action") == load.ActionAdd && r.Text("column") == schemas.ColRest {
			all[r.Text("table")] = r.Time("at")
		}
		return nil
	})
	return all, err
}

// errEnough ends a scan that has read enough.
var errEnough = errors.New("read enough of the table")

// ReadOverflow counts the members in the [schemas.ColRest] column of a table.
func ReadOverflow(ctx context.Context, d load.Destination, name string, t schemas.Table, since time.Time) (Overflow, error) {
	mark := schemas.ColDeletedAt
	if t.Mode == schemas.History {
		mark = schemas.ColValidTo
	}
	o := Overflow{Destination: name, Since: since}
	seen, rows, size := map[string]bool{}, 0, 0
	err := d.Scan(ctx, t.Name, []string{mark, schemas.ColRest}, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if rows++; rows > maxRestRows || size > maxRestBytes {
				return errEnough
			}
			if rest := (Row{b, i}).Text(schemas.ColRest); rest != "" && b.Column(0).IsNull(i) {
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

// count() adds the members in `rest`, which is the ColRest value of one record. An array counts as one member.
func (o *Overflow) count(rest string, seen map[string]bool) {
	d := jsontext.NewDecoder(bytes.NewBufferString(rest), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for len(seen) <= maxRestFields {
		kind := d.PeekKind()
		if _, at := d.StackIndex(d.StackDepth()); kind == '{' || kind == '}' || d.StackDepth() > 0 && at%2 == 0 { // the next token is a name
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

// short truncates a JSON pointer for display.
func short(pointer string) string {
	if most := 80; len(pointer) > most {
		return strings.ToValidUTF8(pointer[:most], "") + "…"
	}
	return pointer
}

// String describes how many members there are, since when, and where.
func (o Overflow) String() string {
	atLeast := ""
	if o.Partial {
		atLeast = "at least "
	}
	names := strings.Join(o.Names, ", ")
	if o.Fields > len(o.Names) {
		names += ", …"
	}
	return fmt.Sprintf("%s%s of %s have no column; they have been stored in %s of %s since %s: %s", atLeast, render.Plural(o.Fields, "member"),
		render.Plural(int(o.Records), "record"), schemas.ColRest, o.Destination, o.Since.Local().Format(time.DateTime), names)
}

// Remedy returns a hint about how to get columns for the members.
func (o Overflow) Remedy(s schemas.Stream) string {
	columns, tables := s.Bounds()
	// Cause: members of the records have no column
	return fmt.Sprintf("the limit of the stream is %s and %s; raise max_columns or max_tables to add columns in the next full pass, or leave out fields with `select` or `drop`",
		render.Plural(columns, "column"), render.Plural(tables, "child table"))
}

// Print writes the overflow for `penstock explain`, in the same form as a fact of a convention.
func (o Overflow) Print(w io.Writer) {
	if o.Records == 0 {
		return
	}
	fmt.Fprintf(w, "# %-10s %s\n", "rest", render.Printable(o.String(), false))
	fmt.Fprintf(w, "#            - %s\n", o.Remedy(o.Limited))
}
