package transform

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

type plan struct {
	schema *arrow.Schema
	node   *table
	types  []arrow.DataType
	index  map[string]int // position of each of penstock's own columns
	steps  []step         // in the order of columns
	keys   []int          // positions of the key columns, for the root table
	fresh  bool           // the table is new, and the contract restricts new tables
}

type step struct {
	column int
	field  arrow.Field
	path   string
	rule   *fieldRule
	known  arrow.DataType // type that the contract requires; nil: none
	fresh  bool           // the column is new, and the contract restricts new columns
}

func (p *plan) idle() bool { return len(p.steps) == 0 && !p.fresh }

func (s *Shaper) planFor(t schemas.Table) *plan {
	if p := s.plans[t.Name]; p != nil && p.schema == t.Columns {
		return p
	}
	p := &plan{schema: t.Columns, node: s.m.tables.named(t.Name), index: map[string]int{}}
	have, known := s.known(t.Name)
	contract := s.m.tables.stream.Rules.Contract
	p.fresh = !known && s.newTable(p.node) && restricts(contract.Tables)
	for i, f := range t.Columns.Fields() {
		p.types = append(p.types, schemas.TypeOf(f))
		source, ok := sourceOf(f)
		if f.Name == schemas.ColRest && known && !have.Columns.HasField(f.Name) && restricts(contract.Columns) {
			p.steps = append(p.steps, step{column: i, field: f, path: f.Name, fresh: true})
			continue
		}
		if !ok {
			p.index[f.Name] = i
			continue
		}
		st := step{column: i, field: f, path: schemas.Column(p.node.path + source), rule: s.m.tables.rules.at(p.node.path + source)}
		if known {
			st.require(have, contract)
		}
		if st.rule != nil || st.known != nil || st.fresh {
			p.steps = append(p.steps, st)
		}
	}
	if p.node.parent == nil {
		p.keys = s.m.tables.key.positions(t.Columns)
	}
	s.plans[t.Name] = p
	return p
}

func restricts(p schemas.Policy) bool { return p != "" && p != schemas.Evolve }

// require sets the fields that say what the contract requires of a column. The first parameter is the table in the
// destination.
func (st *step) require(have schemas.Table, contract schemas.Contract) {
	if st.rule != nil && st.rule.Drop {
		return
	}
	fields := have.Columns.Fields()
	i := slices.IndexFunc(fields, func(f arrow.Field) bool {
		source, ok := sourceOf(f)
		return ok && (f.Name == st.field.Name || source == schemas.Source(st.field))
	})
	switch {
	case i < 0:
		st.fresh = restricts(contract.Columns)
	case restricts(contract.Types) && !st.rule.verbatim():
		from, to := schemas.TypeOf(fields[i]), schemas.TypeOf(st.field)
		if !schemas.SameType(schemas.Join(from, to), from) {
			st.known = from
		}
	}
}

func (s *Shaper) known(name string) (t schemas.Table, ok bool) {
	i := slices.IndexFunc(s.m.tables.known, func(t schemas.Table) bool { return t.Name == name })
	if i < 0 || s.m.tables.known[i].Columns == nil {
		return t, false
	}
	return s.m.tables.known[i], true
}

// newTable reports whether a table that is missing in the destination counts as new for the contract. A root table is
// new if the destination has other tables of the pipeline. A child table is new if the destination has the root table.
func (s *Shaper) newTable(t *table) bool {
	if t.parent == nil {
		return s.hasTables
	}
	_, known := s.known(s.m.tables.root.name)
	return known
}

func (t *openBatch) rename() error {
	t.names = make([]string, len(t.arrays))
	for i, f := range t.table.Columns.Fields() {
		t.names[i] = f.Name
	}
	for _, st := range t.steps {
		if st.rule == nil || st.rule.Rename == "" {
			continue
		}
		name := st.rule.Rename
		if i := slices.Index(t.names, name); i >= 0 && t.arrays[i] != nil && i != st.column {
			return fmt.Errorf("rename column %s of %s: a column %s already exists", st.field.Name, t.table.Name, name)
		}
		t.names[st.column] = name
	}
	return nil
}
