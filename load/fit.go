package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Plan is what must be done to a table before rows of another shape fit in.
// It only ever adds and widens. // Invariant 16
type Plan struct {
	Table  schemas.Table // as it is once the plan was carried out
	Create bool          // there is no such table yet
	From   schemas.Mode  // what Table.Mode was; see Turns
	Add    []arrow.Field // columns to add; all columns where Create is set
	Widen  []Widening

	Tell  []arrow.Field // columns that are described in other words than they were; those of Add are not among them
	About string        // what the table's rows are, where that is told in other words than it was
}

// Widening is a column that changes its type to a wider one.
type Widening struct {
	Column arrow.Field // as it will be
	From   arrow.DataType
}

// Empty reports whether there is nothing to do.
func (p Plan) Empty() bool { return !p.Shapes() && len(p.Tell) == 0 && p.About == "" }

// Shapes reports whether there is more to do than to describe.
func (p Plan) Shapes() bool {
	return p.Create || p.Turns() || len(p.Add) > 0 || len(p.Widen) > 0
}

// Turns reports whether the table changes its mode. The destination turns the
// children of a root table with it (see [Turn]), whether rows arrive for them or
// not. To History: the columns of validity are among Add, and the rows there
// become valid from when they were synced to when they were deleted: of a row
// with a tombstone these are one time, that of the commit which deleted it. To
// Replace: rows with a tombstone are removed.
func (p Plan) Turns() bool { return p.From != p.Table.Mode }

// Fit compares the table have, its Columns nil where there is none, with the
// columns want that rows arrive with. Columns of want that have only been seen
// null are not made before a value comes, and [schemas.ColOrdinal] never is.
// With mode History the table has the columns of validity beside them, which
// the destination fills.
func Fit(have, want schemas.Table) (Plan, error) {
	want.Mode = want.Mode.Or(schemas.Merge)
	p := Plan{Table: have, From: have.Mode.Or(schemas.Merge)}
	if have.Columns == nil {
		p = Plan{Create: true, From: want.Mode, Table: schemas.Table{Name: want.Name, Key: want.Key}}
	} else if !slices.Equal(have.Key, want.Key) {
		return Plan{}, fmt.Errorf("fit table %s: its rows are identified by %q, not by %q", want.Name, have.Key, want.Key)
	}
	if !turnable(p.From, want.Mode) {
		return Plan{}, fmt.Errorf("fit table %s: it holds versions of mode %s, and cannot turn to mode %s", want.Name, p.From, want.Mode)
	}
	p.Table.Mode = want.Mode
	fields := fieldsOf(have.Columns)
	at := make(map[string]int, len(fields)) // a table may have 20,000 columns
	for i, f := range fields {
		at[f.Name] = i
	}
	for _, w := range wanted(want) {
		i, known := at[w.Name]
		switch {
		case w.Name == schemas.ColOrdinal || !known && !placeable(schemas.TypeOf(w)):
		case !known:
			p.Add = append(p.Add, w)
			at[w.Name] = len(fields)
			fields = append(fields, w)
		default:
			if err := p.widen(&fields[i], w); err != nil {
				return Plan{}, fmt.Errorf("fit table %s: %w", want.Name, err)
			}
			p.tell(&fields[i], w)
		}
	}
	place, about := Place(have.Columns), About(have.Columns)
	if place == "" {
		place = Place(want.Columns)
	}
	if text := About(want.Columns); text != "" && text != about {
		p.About, about = text, text
	}
	p.Table.Columns = newSchema(fields, place, about)
	return p, nil
}

// wanted are the columns of a table in its mode.
func wanted(t schemas.Table) []arrow.Field {
	fields := t.Columns.Fields()
	if t.Mode == schemas.History && !IsInternal(t.Name) && !t.Columns.HasField(schemas.ColValidFrom) {
		fields = append(fields, schemas.Field(schemas.ColValidFrom, schemas.Timestamp, ""), schemas.Field(schemas.ColValidTo, schemas.Timestamp, ""))
	}
	return fields
}

// Turn plans for a table to change its mode though no rows arrive for it: the
// children of a table that does. Of a mode it cannot turn to it says so.
func Turn(have schemas.Table, to schemas.Mode) (Plan, error) {
	return Fit(have, schemas.Table{Name: have.Name, Key: have.Key, Columns: have.Columns, Mode: to})
}

// turnable reports whether a table's mode may change so. A table with one row
// a record can begin to keep versions; which of several is the row, nobody
// can tell.
func turnable(from, to schemas.Mode) bool {
	return from == to || from == schemas.Merge || from == schemas.Replace
}

// Place is where in the records a child table's rows come from: the JSON pointer
// in the metadata of its schema, arrays leaving no mark in it; "" for a table of
// records. Tables of fields whose names meet are told apart by it. // Invariant 17
func Place(s *arrow.Schema) string {
	if s == nil {
		return ""
	}
	md := s.Metadata()
	place, _ := md.GetValue(schemas.SourceKey)
	return place
}

func newSchema(fields []arrow.Field, place, about string) *arrow.Schema {
	md := map[string]string{}
	if place != "" {
		md[schemas.SourceKey] = place
	}
	if about != "" {
		md[schemas.DescriptionKey] = about
	}
	if len(md) == 0 {
		return arrow.NewSchema(fields, nil)
	}
	of := arrow.MetadataFrom(md)
	return arrow.NewSchema(fields, &of)
}

// widen makes the column f wide enough for the values of w.
func (p *Plan) widen(f *arrow.Field, w arrow.Field) error {
	if a, b := schemas.Source(*f), schemas.Source(w); a != b && a != "" && b != "" {
		return fmt.Errorf("column %q holds %s, not %s", f.Name, a, b) // Invariant 17
	}
	from := schemas.TypeOf(*f)
	to := schemas.Join(from, schemas.TypeOf(w))
	if schemas.SameType(from, to) {
		return nil
	}
	*f = schemas.Describe(schemas.Field(f.Name, to, schemas.Source(*f)), schemas.Described(*f))
	p.Widen = append(p.Widen, Widening{Column: *f, From: from})
	return nil
}

func fieldsOf(s *arrow.Schema) []arrow.Field {
	if s == nil {
		return nil
	}
	return s.Fields()
}

// Exact reports whether the values a column holds can be cast to its wider type
// such that they equal what the source would give. Where they cannot (text of
// a number that was stored without its spelling), the rows' hashes must be
// cleared with the cast, so that the next pass writes them again.
func (w Widening) Exact() bool { return exact(w.From, schemas.TypeOf(w.Column)) }

func exact(from, to arrow.DataType) bool {
	if a, ok := from.(*arrow.ListType); ok {
		b, ok := to.(*arrow.ListType)
		return ok && exact(a.Elem(), b.Elem())
	}
	switch from.ID() {
	case arrow.NULL, arrow.DATE32:
		return true
	case arrow.INT64:
		return !schemas.SameType(to, schemas.JSON) // it may have been written as a string
	case arrow.DECIMAL128:
		return to.ID() == arrow.DECIMAL128
	}
	return schemas.SameType(from, to)
}

// Actions of a [Change].
const (
	ActionCreate = "create_table"
	ActionAdd    = "add_column"
	ActionWiden  = "widen"
	ActionTurn   = "turn"        // the table's mode is now To
	ActionForget = "drop_column" // somebody has dropped it, and it was accepted
	ActionRetype = "retype"      // somebody has given it the type To, and it was accepted
	ActionTell   = "describe"    // the column, or without one the table, means To
	ActionView   = "create_view" // Table is a view of penstock's own
	ActionOwner  = "owner"       // the table belongs to To, an [Owner] as JSON; before, to From
	ActionDrift  = "drift"       // the source is not as it was, says Reason; the table is
)

// Change is one row of the table [Changes]: the creation of a table, whose key
// is To (see [KeyName]) and whose [Place] is Source, or a column that was added
// or widened.
type Change struct {
	At                    time.Time // set where changes are read back; a destination stamps those it records
	Table, Column, Source string
	Action                string
	From, To              string // [schemas.TypeName]s
	Reason                string
}

// Changes lists what the plan does as rows for the table of that name.
func (p Plan) Changes() []Change {
	var out []Change
	if p.Create {
		out = append(out, Change{Table: p.Table.Name, Source: Place(p.Table.Columns), Action: ActionCreate, To: KeyName(p.Table.Key), Reason: "first rows"})
	}
	if p.Turns() || p.Create && p.Table.Mode != schemas.Merge {
		out = append(out, Change{Table: p.Table.Name, Action: ActionTurn, From: string(p.From), To: string(p.Table.Mode), Reason: "mode of the pipeline"})
	}
	reason := "first value"
	if p.Create {
		reason = "first rows"
	}
	for _, f := range p.Add {
		out = append(out, Change{Table: p.Table.Name, Column: f.Name, Source: schemas.Source(f),
			Action: ActionAdd, To: schemas.TypeName(schemas.TypeOf(f)), Reason: reason})
	}
	for _, w := range p.Widen {
		out = append(out, Change{Table: p.Table.Name, Column: w.Column.Name, Source: schemas.Source(w.Column),
			Action: ActionWiden, From: schemas.TypeName(w.From), To: schemas.TypeName(schemas.TypeOf(w.Column)), Reason: "a value did not fit"})
	}
	for _, f := range slices.Concat(p.Add, p.Tell) {
		if text := schemas.Described(f); text != "" {
			out = append(out, Change{Table: p.Table.Name, Column: f.Name, Action: ActionTell, To: text, Reason: "the stream's description"})
		}
	}
	if p.About != "" {
		out = append(out, Change{Table: p.Table.Name, Action: ActionTell, To: p.About, Reason: "the stream's description"})
	}
	return out
}

// Replay folds changes, in any order but with their times, into the tables which
// they made. Types only ever widen, so the join of all that a column has had is
// the one it has, unless somebody's change of it was accepted since.
func Replay(changes []Change) (map[string]schemas.Table, error) {
	tables := map[string]schemas.Table{}
	fields, places, about := map[string][]arrow.Field{}, map[string]string{}, map[string]string{}
	for _, c := range slices.SortedStableFunc(slices.Values(changes), func(a, b Change) int { return a.At.Compare(b.At) }) {
		if c.Action == ActionView || c.Action == ActionDrift || c.Action == ActionOwner {
			continue
		}
		t := tables[c.Table]
		t.Name, t.Mode = c.Table, t.Mode.Or(schemas.Merge)
		switch {
		case c.Action == ActionTurn:
			t.Mode = schemas.Mode(c.To)
		case c.Action == ActionTell && c.Column == "":
			about[c.Table] = c.To
		case c.Column == "":
			t.Key, places[c.Table] = ParseKeyName(c.To), c.Source
		default:
			var err error
			if fields[c.Table], err = replayColumn(fields[c.Table], c); err != nil {
				return nil, fmt.Errorf("replay changes of %s, column %q: %w", c.Table, c.Column, err)
			}
		}
		tables[c.Table] = t
	}
	for name, t := range tables {
		t.Columns = newSchema(fields[name], places[name], about[name])
		tables[name] = t
	}
	return tables, nil
}

func replayColumn(fields []arrow.Field, c Change) ([]arrow.Field, error) {
	i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == c.Column })
	if c.Action == ActionTell {
		if i >= 0 {
			fields[i] = schemas.Describe(fields[i], c.To)
		}
		return fields, nil
	}
	if c.Action == ActionForget {
		if i >= 0 {
			fields = slices.Delete(fields, i, i+1)
		}
		return fields, nil
	}
	to, err := schemas.ParseTypeName(c.To)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		return append(fields, schemas.Field(c.Column, to, c.Source)), nil
	}
	if c.Action != ActionRetype {
		to = schemas.Join(schemas.TypeOf(fields[i]), to)
	}
	fields[i] = schemas.Describe(schemas.Field(c.Column, to, c.Source), schemas.Described(fields[i]))
	return fields, nil
}

// KeyName writes a key for the column to_type of a table's creation: one
// column a line; no line for a table without a key.
func KeyName(key []string) string { return strings.Join(key, "\n") }

// ParseKeyName is the inverse of [KeyName].
func ParseKeyName(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// ErrForeignChange says that a table is not as penstock left it: somebody has
// changed it by hand, and nothing was touched. The error which wraps it is a
// [*ForeignChange]. // Invariant 16
var ErrForeignChange = errors.New("table was changed by hand")

// ForeignChange is what somebody else changed about a table.
type ForeignChange struct {
	Table string
	Diff  []string // one line a difference
}

// Error lists the differences.
func (e *ForeignChange) Error() string {
	return fmt.Sprintf("table %s was changed by hand: %s", e.Table, strings.Join(e.Diff, "; "))
}

// Is makes errors.Is find [ErrForeignChange].
func (e *ForeignChange) Is(target error) bool { return target == ErrForeignChange }

// Compare holds the columns a table has, name to type in the database's words,
// against those that penstock made, and returns a [*ForeignChange] where one
// of them is gone or has another type. Columns beyond those are another's.
func Compare(table string, made, live map[string]string) error {
	var diff []string
	for name, want := range made {
		switch got, ok := live[name]; {
		case !ok:
			diff = append(diff, fmt.Sprintf("column %q is gone", name))
		case got != want:
			diff = append(diff, fmt.Sprintf("column %q is %s, was %s", name, got, want))
		}
	}
	if diff == nil {
		return nil
	}
	slices.Sort(diff)
	return &ForeignChange{Table: table, Diff: diff}
}

// Accepted is the change that takes the column f of t for what somebody has made
// of it: of the type to, or gone where that is nil. It is an error where t
// cannot do without the column as it was. // Invariant 16
func Accepted(t schemas.Table, f arrow.Field, to arrow.DataType) (Change, error) {
	if slices.Contains(t.Key, f.Name) || strings.HasPrefix(f.Name, Prefix) {
		return Change{}, fmt.Errorf("column %q tells rows apart or is penstock's own: put it back, or drop the table to have it loaded anew", f.Name)
	}
	c := Change{
		Table: t.Name, Column: f.Name, Source: schemas.Source(f), Action: ActionForget,
		From: schemas.TypeName(schemas.TypeOf(f)), Reason: "changed by hand, and accepted",
	}
	if to != nil {
		c.Action, c.To = ActionRetype, schemas.TypeName(to)
	}
	return c, nil
}

// placeable reports whether a column of type t can be made: one that has only
// been seen null or as an empty list waits for its first value.
func placeable(t arrow.DataType) bool {
	l, ok := t.(*arrow.ListType)
	return t.ID() != arrow.NULL && (!ok || placeable(l.Elem()))
}
