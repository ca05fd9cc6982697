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

// Plan lists the changes that a table needs before arriving rows can be stored in it. No column is removed or narrowed.
// Invariant 16
type Plan struct {
	Table   schemas.Table // the table as it will be after the changes
	Create  bool          // the table does not exist yet
	OldMode schemas.Mode  // the table's mode before the plan; see ChangesMode
	Add     []arrow.Field // columns to add; if Create is set, all columns
	Widen   []Widening

	Describe    []arrow.Field // existing columns that get a new description
	Description string        // the table's new description, if it changes
}

// Widening is the change of a column's type to a wider type.
type Widening struct {
	Column arrow.Field // the column, with its new type
	From   arrow.DataType
}

// Empty reports whether the plan changes nothing.
func (p Plan) Empty() bool { return !p.ChangesShape() && len(p.Describe) == 0 && p.Description == "" }

// ChangesShape reports whether the plan does more than change descriptions.
func (p Plan) ChangesShape() bool {
	return p.Create || p.ChangesMode() || len(p.Add) > 0 || len(p.Widen) > 0
}

// ChangesMode reports whether the table changes its mode. The destination then changes the child tables too, even if
// no rows arrive for them; see [PlanModeChange].
//
// A change to History adds the validity columns. Existing rows become valid from their [schemas.ColSyncedAt], and a
// tombstone is valid until its [schemas.ColDeletedAt]. A change to Replace removes tombstones.
func (p Plan) ChangesMode() bool { return p.OldMode != p.Table.Mode }

// Fit compares an existing table with the table of arriving rows. It plans the changes that the table needs before the
// rows can be stored in it. If the table does not exist, existing.Columns is nil.
//
// Fit returns an error in three cases: the two tables have different keys, the mode cannot change, or a column of the
// existing table holds another source field than the arriving column of the same name. A column that has had only nulls
// or empty lists is not created until its first value arrives. No column is created for [schemas.ColOrdinal]. In mode
// History the plan adds the validity columns, which the destination fills.
func Fit(existing, arriving schemas.Table) (Plan, error) {
	arriving.Mode = arriving.Mode.Or(schemas.Merge)
	p := Plan{Table: existing, OldMode: existing.Mode.Or(schemas.Merge)}
	if existing.Columns == nil {
		p = Plan{Create: true, OldMode: arriving.Mode, Table: schemas.Table{Name: arriving.Name, Key: arriving.Key}}
	} else if !slices.Equal(existing.Key, arriving.Key) {
		return Plan{}, fmt.Errorf("fit table %s: its rows are identified by %q, not by %q", arriving.Name, existing.Key, arriving.Key)
	}
	if !turnable(p.OldMode, arriving.Mode) {
		return Plan{}, fmt.Errorf("fit table %s: it keeps versions, as mode %s does, and cannot change to mode %s", arriving.Name, p.OldMode, arriving.Mode)
	}
	p.Table.Mode = arriving.Mode
	fields := fieldsOf(existing.Columns)
	at := make(map[string]int, len(fields)) // a map, because a table may have 20,000 columns
	for i, f := range fields {
		at[f.Name] = i
	}
	for _, w := range wanted(arriving) {
		i, known := at[w.Name]
		switch {
		case w.Name == schemas.ColOrdinal || !known && !placeable(schemas.TypeOf(w)):
		case !known:
			p.Add = append(p.Add, w)
			at[w.Name] = len(fields)
			fields = append(fields, w)
		default:
			if err := p.widen(&fields[i], w); err != nil {
				return Plan{}, fmt.Errorf("fit table %s: %w", arriving.Name, err)
			}
			p.describe(&fields[i], w)
		}
	}
	place, about := SourcePointer(existing.Columns), TableDescription(existing.Columns)
	if place == "" {
		place = SourcePointer(arriving.Columns)
	}
	if text := TableDescription(arriving.Columns); text != "" && text != about {
		p.Description, about = text, text
	}
	p.Table.Columns = newSchema(fields, place, about)
	return p, nil
}

func wanted(t schemas.Table) []arrow.Field {
	fields := t.Columns.Fields()
	if t.Mode == schemas.History && !IsInternal(t.Name) && !t.Columns.HasField(schemas.ColValidFrom) {
		fields = append(fields, schemas.Field(schemas.ColValidFrom, schemas.Timestamp, ""), schemas.Field(schemas.ColValidTo, schemas.Timestamp, ""))
	}
	return fields
}

// PlanModeChange plans the new mode of a child table. When a root table changes its mode, its child tables change too,
// even those for which no rows arrive. PlanModeChange returns an error if this change of mode is impossible.
func PlanModeChange(existing schemas.Table, to schemas.Mode) (Plan, error) {
	return Fit(existing, schemas.Table{Name: existing.Name, Key: existing.Key, Columns: existing.Columns, Mode: to})
}

// turnable reports whether a table can change its mode. A table with one row per record may start to keep versions. The
// reverse is impossible, because nothing says which of several versions to keep.
func turnable(from, to schemas.Mode) bool {
	return from == to || from == schemas.Merge || from == schemas.Replace
}

// SourcePointer returns the JSON pointer to a list in a record: the entries of this list are the rows of the child
// table with the schema s. The pointer has no array indices. It is stored in the schema's metadata. For a root table,
// the pointer is "". Fields with similar names, such as /items and /Items, would give the same table name, so one of
// the tables gets another name. The pointer says which field each table belongs to. // Invariant 17
func SourcePointer(s *arrow.Schema) string {
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

func (p *Plan) widen(f *arrow.Field, w arrow.Field) error {
	if a, b := schemas.Source(*f), schemas.Source(w); a != b && a != "" && b != "" {
		return fmt.Errorf("column %q holds %s, not %s", f.Name, a, b) // Invariant 17
	}
	from := schemas.TypeOf(*f)
	to := schemas.Join(from, schemas.TypeOf(w))
	if schemas.SameType(from, to) {
		return nil
	}
	*f = schemas.WithDescription(schemas.Field(f.Name, to, schemas.Source(*f)), schemas.DescriptionOf(*f))
	p.Widen = append(p.Widen, Widening{Column: *f, From: from})
	return nil
}

func fieldsOf(s *arrow.Schema) []arrow.Field {
	if s == nil {
		return nil
	}
	return s.Fields()
}

// Exact reports whether a cast loses nothing: the cast values equal those that the column would hold if it had always
// had the wider type. The cast from decimal to text is not exact: the digits that the source wrote, such as "1.50", are
// lost. After such a cast, the destination must clear the hashes of the rows, so that the next pass writes them again.
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
		return !schemas.SameType(to, schemas.JSON) // the source may have sent the number as a string
	case arrow.DECIMAL128:
		return to.ID() == arrow.DECIMAL128
	}
	return schemas.SameType(from, to)
}

// Actions of a [Change].
const (
	ActionCreate     = "create_table"
	ActionAdd        = "add_column"
	ActionWiden      = "widen"
	ActionChangeMode = "turn"        // the table's mode changes; From and To are the old and the new mode
	ActionForget     = "drop_column" // a user dropped the column, and a person accepted that
	ActionRetype     = "retype"      // a user changed the type to To, and a person accepted that
	ActionRestore    = "restore"     // another program changed the table as Reason says, and a person chose to undo that
	ActionDescribe   = "describe"    // To is the new description of the column; if Column is "", of the table
	ActionView       = "create_view" // Table is a view that penstock created
	ActionOwner      = "owner"       // the table changes its owner; From is the previous [Owner] and To the new one, as JSON
	ActionDrift      = "drift"       // the source has changed as Reason says; the table has not changed
)

// Change is one row of the table [Changes]. For [ActionCreate], To is the table's key as [KeyName] encodes it, and
// Source is the table's [SourcePointer].
type Change struct {
	At                    time.Time // when the destination recorded the change
	Table, Column, Source string
	Action                string
	From, To              string // types as [schemas.TypeName] writes them; for some actions, other texts, which the comments on these actions describe
	Reason                string
}

// Changes returns the plan's changes as rows of the table [Changes].
func (p Plan) Changes() []Change {
	var out []Change
	if p.Create {
		out = append(out, Change{Table: p.Table.Name, Source: SourcePointer(p.Table.Columns), Action: ActionCreate, To: KeyName(p.Table.Key), Reason: "first rows"})
	}
	if p.ChangesMode() || p.Create && p.Table.Mode != schemas.Merge {
		out = append(out, Change{Table: p.Table.Name, Action: ActionChangeMode, From: string(p.OldMode), To: string(p.Table.Mode), Reason: "mode of the pipeline"})
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
	for _, f := range slices.Concat(p.Add, p.Describe) {
		if text := schemas.DescriptionOf(f); text != "" {
			out = append(out, Change{Table: p.Table.Name, Column: f.Name, Action: ActionDescribe, To: text, Reason: "the stream's description"})
		}
	}
	if p.Description != "" {
		out = append(out, Change{Table: p.Table.Name, Action: ActionDescribe, To: p.Description, Reason: "the stream's description"})
	}
	return out
}

// Replay computes the tables that result from recorded changes. The changes may be in any order, because Replay sorts
// them by At. Types only widen, so the type of a column is the narrowest type that includes all its recorded types. A
// change that was made by hand and then accepted replaces the type or removes the column.
func Replay(changes []Change) (map[string]schemas.Table, error) {
	tables := map[string]schemas.Table{}
	fields, places, about := map[string][]arrow.Field{}, map[string]string{}, map[string]string{}
	for _, c := range slices.SortedStableFunc(slices.Values(changes), func(a, b Change) int { return a.At.Compare(b.At) }) {
		if slices.Contains([]string{ActionView, ActionDrift, ActionOwner, ActionRestore}, c.Action) {
			continue
		}
		t := tables[c.Table]
		t.Name, t.Mode = c.Table, t.Mode.Or(schemas.Merge)
		switch {
		case c.Action == ActionChangeMode:
			t.Mode = schemas.Mode(c.To)
		case c.Action == ActionDescribe && c.Column == "":
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
	if c.Action == ActionDescribe {
		if i >= 0 {
			fields[i] = schemas.WithDescription(fields[i], c.To)
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
	fields[i] = schemas.WithDescription(schemas.Field(c.Column, to, c.Source), schemas.DescriptionOf(fields[i]))
	return fields, nil
}

// KeyName encodes a table's key as text, one column per line. It returns "" for a table without a key. In [Changes],
// the row of [ActionCreate] holds this text in the column to_type.
func KeyName(key []string) string { return strings.Join(key, "\n") }

// ParseKeyName is the inverse of [KeyName].
func ParseKeyName(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// ErrNotDatabase reports that the file of a destination exists, and has other content than a database of this kind.
var ErrNotDatabase = errors.New("the file is not a database of this kind")

// ErrForeignChange reports that the table was changed by hand since penstock's last change to it, and that nothing
// was written. The error that wraps it is a [*ForeignChange]. // Invariant 16
var ErrForeignChange = errors.New("table was changed by hand")

// ForeignChange lists what was changed by hand in a table.
type ForeignChange struct {
	Table string
	Diff  []string // one line per difference
}

// Error lists the differences.
func (e *ForeignChange) Error() string {
	return fmt.Sprintf("table %s was changed by hand: %s", e.Table, strings.Join(e.Diff, "; "))
}

// Is makes errors.Is find [ErrForeignChange].
func (e *ForeignChange) Is(target error) bool { return target == ErrForeignChange }

// Compare returns a [*ForeignChange] if a column that penstock made is gone or has another type. The maps recordedTypes
// and presentTypes have the types that penstock recorded and the types that the columns have now. Their keys are column
// names, and the types are in the database's notation. Columns that are only in presentTypes are allowed.
func Compare(table string, recordedTypes, presentTypes map[string]string) error {
	var diff []string
	for name, want := range recordedTypes {
		switch got, ok := presentTypes[name]; {
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

// Accepted returns the change to record after the column f of the table t was changed by hand and a person has accepted
// this. The parameter newType is the column's new type; nil if the column is gone. Accepted returns an error if the
// column is part of the key or belongs to penstock. Invariant 16
func Accepted(t schemas.Table, f arrow.Field, newType arrow.DataType) (Change, error) {
	if slices.Contains(t.Key, f.Name) || strings.HasPrefix(f.Name, Prefix) {
		return Change{}, fmt.Errorf("column %q is part of the key or belongs to penstock: restore it, or drop the table to load it again", f.Name)
	}
	c := Change{
		Table: t.Name, Column: f.Name, Source: schemas.Source(f), Action: ActionForget,
		From: schemas.TypeName(schemas.TypeOf(f)), Reason: "changed by hand, and accepted",
	}
	if newType != nil {
		c.Action, c.To = ActionRetype, schemas.TypeName(newType)
	}
	return c, nil
}

// placeable returns false for the type of a column that has had only nulls or empty lists. Such a column is not
// created yet.
func placeable(t arrow.DataType) bool {
	l, ok := t.(*arrow.ListType)
	return t.ID() != arrow.NULL && (!ok || placeable(l.Elem()))
}
