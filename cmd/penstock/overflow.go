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
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Limits of readOverflow: how much of a table it reads, and how many distinct members it counts. // Invariant 6
const (
	maxRestBytes  = 16 << 20
	maxRestRows   = 1_000_000
	maxRestFields = 100_000
)

// overflow describes the members of a stream's records that have no column of their own, because the stream has reached
// its limit of columns or child tables. A destination stores them in the column [schemas.ColRest].
type overflow struct {
	Destination string    `json:"destination"`
	Since       time.Time `json:"since"`   // when the table got the column ColRest
	Records     int64     `json:"records"` // number of records with such members
	Fields      int       `json:"fields"`  // number of distinct members; each member of a nested object counts
	Names       []string  `json:"names"`   // JSON pointers of the first three members
	Partial     bool      `json:"partial"` // only part of the table was read, so there may be more members

	limited schemas.Stream // the stream with the limits of its pipeline
}

// overflows returns when each table of d got the column [schemas.ColRest]. Tables without the column are not in the map.
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

// errEnough ends a scan that has read enough.
var errEnough = errors.New("read enough of the table")

// readOverflow counts the members in the [schemas.ColRest] column of a table.
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

// count adds the members in rest, which is the ColRest value of one record. An array counts as one member.
func (o *overflow) count(rest string, seen map[string]bool) {
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
func (o overflow) String() string {
	atLeast := ""
	if o.Partial {
		atLeast = "at least "
	}
	names := strings.Join(o.Names, ", ")
	if o.Fields > len(o.Names) {
		names += ", …"
	}
	return fmt.Sprintf("%s%s of %s have no column; they have been in %s of %s since %s: %s", atLeast, render.Plural(o.Fields, "member"),
		render.Plural(int(o.Records), "record"), schemas.ColRest, o.Destination, o.Since.Local().Format(time.DateTime), names)
}

// remedy returns a hint about how to get columns for the members.
func (o overflow) remedy(s schemas.Stream) string {
	columns, tables := s.Bounds()
	return fmt.Sprintf("the limit of the stream is %s and %s; raise max_columns or max_tables to add columns in the next full pass, or leave out fields with `select` or `drop`",
		render.Plural(columns, "column"), render.Plural(tables, "child table"))
}

// print writes the overflow for `penstock explain`, in the form of a fact.
func (o overflow) print(w io.Writer) {
	if o.Records == 0 {
		return
	}
	fmt.Fprintf(w, "# %-10s %s\n", "rest", render.Printable(o.String(), false))
	fmt.Fprintf(w, "#            - %s\n", o.remedy(o.limited))
}

// checkOverflow returns a finding for each stream in d that has members without a column because of its column limit.
func (a *app) checkOverflow(ctx context.Context, c *config.Config, d config.Destination, dest load.Destination) []finding {
	since, err := overflows(ctx, dest)
	var all []finding
	reported := map[string]bool{}
	for _, p := range c.Pipelines {
		if len(since) == 0 || !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.Name }) {
			continue
		}
		streams, failed := c.Select(p, nil)
		err = errors.Join(err, failed)
		limitColumns(c, p, streams)
		for _, s := range streams {
			at, ok := since[s.Table.Name]
			if !ok || reported[s.Name] {
				continue
			}
			reported[s.Name] = true
			o, failed := readOverflow(ctx, dest, d.Name, s.Table, at)
			if err = errors.Join(err, failed); o.Records > 0 {
				all = append(all, finding{Part: "stream " + s.Name, OK: true, Detail: o.String(), Hint: o.remedy(s.Stream)})
			}
		}
	}
	if err != nil {
		a.log.Warn("cannot count fields beyond the column limit", "destination", d.Name, "error", err)
	}
	return all
}
