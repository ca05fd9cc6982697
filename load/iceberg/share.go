//go:build iceberg

package iceberg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
)

// If sources share a stream's tables, the stream's head table (its table of cursors) has a property for each source,
// with the source's last commit. A commit changes the property of its source in the same step as it adds its
// snapshots. // Invariant 2

// propSource is the prefix of these properties.
const propSource = propPrefix + "source."

func sourcesOf(meta table.Metadata) (map[string]*parquet.Head, error) {
	out := map[string]*parquet.Head{}
	for name, text := range meta.Properties() {
		source, ok := strings.CutPrefix(name, propSource)
		if !ok {
			continue
		}
		h := &parquet.Head{}
		if err := json.Unmarshal([]byte(text), h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[source] = h
	}
	return out, nil
}

func headsOf(spec parquet.Commit) (iceberg.Properties, error) {
	out := iceberg.Properties{}
	for _, c := range append([]parquet.Commit{spec}, spec.OtherSources...) {
		text, err := json.Marshal(parquet.Head{ID: c.ID, Manifest: c.Manifest})
		if err != nil {
			return nil, err
		}
		out[propSource+c.Source] = string(text)
	}
	return out, nil
}

// othersMoved reports whether another source has committed since this commit has read spec.LastCommits. // Invariant 13
func (h *head) othersMoved(spec parquet.Commit) bool {
	if spec.LastCommits == nil {
		return false
	}
	for source, last := range h.sources {
		if source != spec.Source && spec.LastCommits[source] != last.ID {
			return true
		}
	}
	return false
}

func combined(spec parquet.Commit) []parquet.TableFiles {
	if spec.OtherSources == nil {
		return spec.Tables
	}
	out := append([]parquet.TableFiles{}, spec.Tables...)
	at := map[string]int{}
	for i, t := range out {
		at[t.Name] = i
	}
	for _, c := range spec.OtherSources {
		for _, t := range c.Tables {
			i, ok := at[t.Name]
			if !ok {
				continue // the commit does not contain this table, so the table stays unchanged
			}
			out[i].Added = append(out[i].Added[:len(out[i].Added):len(out[i].Added)], t.Added...)
			out[i].Removed = append(out[i].Removed[:len(out[i].Removed):len(out[i].Removed)], t.Removed...)
			out[i].AddedDeletes = slices.Concat(out[i].AddedDeletes, t.AddedDeletes)
			out[i].RemovedDeletes = slices.Concat(out[i].RemovedDeletes, t.RemovedDeletes)
			out[i].Reset = out[i].Reset || len(t.Removed)+len(t.RemovedDeletes) > 0
		}
	}
	return out
}

// mergeColumns returns the columns of the table after a commit: the present columns, which are those of the schema
// `live`, and then the new columns of the commit. Field IDs are made from a column's name and type. If a column has one
// ID in the commit and another ID in the table, the types differ, and some files must be rewritten. Then mergeColumns
// returns a [parquet.Disagreement], or uses the column of the commit if t.Reset is set. It also returns an error if two
// columns have the same field ID.
func mergeColumns(t parquet.TableFiles, live, want *iceberg.Schema) (*iceberg.Schema, error) {
	fields := append([]iceberg.NestedField{}, live.Fields()...)
	var apart []arrow.Field
	for _, w := range want.Fields() {
		i := position(fields, w.Name)
		switch {
		case i < 0:
			fields = append(fields, w)
		case fields[i].ID == w.ID:
			w.Type, w.Doc = wider(fields[i].Type, w.Type), cmp.Or(w.Doc, fields[i].Doc)
			fields[i] = w
		case t.Reset:
			fields[i] = w
		default:
			spec, err := latticeOf(fields[i].Type)
			if err != nil {
				return nil, fmt.Errorf("column %q: %w", w.Name, err)
			}
			apart = append(apart, schemas.Field(w.Name, spec, ""))
		}
	}
	if apart != nil {
		return nil, &parquet.Disagreement{Table: t.Table, Columns: arrow.NewSchema(apart, nil)}
	}
	if a, b, ok := sameID(fields); ok {
		return nil, fmt.Errorf("columns %q and %q have the same field ID\nhint: mask one of them with drop", a, b)
	}
	return iceberg.NewSchemaWithIdentifiers(0, want.IdentifierFieldIDs, fields...), nil
}

func position(fields []iceberg.NestedField, name string) int {
	for i, f := range fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// sameID finds two columns that have the same field ID. IDs are hashes, so this can happen. With a hundred columns per
// table, it happens in one of two hundred thousand tables.
func sameID(fields []iceberg.NestedField) (a, b string, ok bool) {
	seen := map[int]string{}
	for _, f := range fields {
		ids := []int{f.ID}
		if l, list := f.Type.(*iceberg.ListType); list {
			ids = append(ids, l.ElementID)
		}
		for _, id := range ids {
			if other, there := seen[id]; there {
				return other, f.Name, true
			}
			seen[id] = f.Name
		}
	}
	return "", "", false
}

func wider(a, b iceberg.Type) iceberg.Type {
	switch x := a.(type) {
	case iceberg.DecimalType:
		if y, ok := b.(iceberg.DecimalType); ok && x.Precision() > y.Precision() {
			return x
		}
	case *iceberg.ListType:
		if y, ok := b.(*iceberg.ListType); ok {
			return &iceberg.ListType{ElementID: y.ElementID, Element: wider(x.Element, y.Element)}
		}
	}
	return b
}

// latticeOf returns penstock's type for an Iceberg type. It is the inverse of [typeOf].
func latticeOf(t iceberg.Type) (arrow.DataType, error) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return schemas.Bool, nil
	case iceberg.Int64Type:
		return schemas.Int64, nil
	case iceberg.Float64Type:
		return schemas.Float64, nil
	case iceberg.StringType:
		return schemas.Text, nil
	case iceberg.DateType:
		return schemas.Date, nil
	case iceberg.TimestampTzType:
		return schemas.Timestamp, nil
	case iceberg.DecimalType:
		return &arrow.Decimal128Type{Precision: int32(t.Precision()), Scale: int32(t.Scale())}, nil
	case *iceberg.ListType:
		spec, err := latticeOf(t.Element)
		return arrow.ListOf(spec), err
	}
	return nil, fmt.Errorf("penstock does not write the type %s", t)
}

// expected() returns the types with which the caller compares the columns of the schema `previous`. For most columns,
// this is the type in the schema `live`. But if another source has added digits to a decimal, it is the type in the
// schema `previous`, so that the column counts as unchanged.
func expected(previous, live *iceberg.Schema) map[string]string {
	out := map[string]string{}
	for _, f := range previous.Fields() {
		now, ok := live.FindFieldByName(f.Name)
		switch {
		case !ok:
		case now.ID == f.ID && wider(f.Type, now.Type).Equals(now.Type):
			out[f.Name] = f.Type.String()
		default:
			out[f.Name] = now.Type.String()
		}
	}
	return out
}

func (h *head) checkPlacement(source string) error {
	if h.at == "" {
		return nil
	}
	return load.CheckSharing(h.sources != nil, source)
}
