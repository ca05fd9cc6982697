//go:build iceberg

package iceberg

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

// schemaOf returns the schema of a table. The key columns are required. If they identify a row, they are the
// identifier fields.
func schemaOf(columns *arrow.Schema, key []string, versions bool) (*iceberg.Schema, error) {
	fields := make([]iceberg.NestedField, columns.NumFields())
	for i, f := range columns.Fields() {
		t, err := typeOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		fields[i] = iceberg.NestedField{ID: parquet.FieldNumber(f), Name: f.Name, Type: t, Doc: load.Comment(schemas.DescriptionOf(f), schemas.Source(f))}
	}
	if len(key) > 0 && columns.HasField(schemas.ColSource) {
		key = append([]string{schemas.ColSource}, key...)
	}
	var ids []int
	for _, name := range key {
		i := position(fields, name)
		if i < 0 || !identifies(fields[i].Type) {
			ids = nil
			break
		}
		ids = append(ids, fields[i].ID)
	}
	for i, f := range fields {
		fields[i].Required = slices.Contains(ids, f.ID)
	}
	if versions {
		ids = nil
	}
	return iceberg.NewSchemaWithIdentifiers(0, ids, fields...), nil
}

// identifies reports whether Iceberg allows identifier fields of a type.
func identifies(t iceberg.Type) bool {
	_, primitive := t.(iceberg.PrimitiveType)
	return primitive && !t.Equals(iceberg.PrimitiveTypes.Float64)
}

func typeOf(t arrow.DataType) (iceberg.Type, error) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return iceberg.PrimitiveTypes.Bool, nil
	case *arrow.Int64Type:
		return iceberg.PrimitiveTypes.Int64, nil
	case *arrow.Float64Type:
		return iceberg.PrimitiveTypes.Float64, nil
	case *arrow.StringType:
		return iceberg.PrimitiveTypes.String, nil
	case *arrow.Date32Type:
		return iceberg.PrimitiveTypes.Date, nil
	case *arrow.TimestampType:
		return iceberg.PrimitiveTypes.TimestampTz, nil
	case *arrow.Decimal128Type:
		return iceberg.DecimalTypeOf(int(t.Precision), int(t.Scale)), nil
	case *arrow.ListType:
		of, err := typeOf(t.Elem())
		return &iceberg.ListType{ElementID: parquet.FieldNumber(t.ElemField()), Element: of}, err
	}
	return nil, fmt.Errorf("Iceberg has no type for %s", t)
}

// compare returns an error if another program has changed the columns. // Invariant 16
func (e *edition) compare() error {
	if e.t.PreviousColumns == nil || e.t.Restore {
		return nil // this is the source's first commit to the table, or a commit that restores the table's columns
	}
	was, err := schemaOf(e.t.PreviousColumns, nil, false)
	if err != nil {
		return err
	}
	live := e.base.CurrentSchema()
	now := types(live)
	if e.shared {
		now = expected(was, live)
	}
	err = load.Compare(e.t.Table, types(was), now)
	if err != nil || e.shared {
		return err
	}
	diff := otherIDs(was, live)
	for _, f := range live.Fields() {
		if _, ok := was.FindFieldByName(f.Name); !ok {
			diff = append(diff, fmt.Sprintf("column %q was added", f.Name))
		}
	}
	if diff != nil {
		err = &load.ForeignChange{Table: e.t.Table, Diff: diff}
	}
	return err
}

// otherIDs lists the columns whose field IDs in the table differ from the wanted field IDs. The data files use the
// wanted IDs, so readers that use the table's IDs would not find the values.
func otherIDs(want, live *iceberg.Schema) (diff []string) {
	ids := func(f iceberg.NestedField) (int, int) {
		if l, ok := f.Type.(*iceberg.ListType); ok {
			return f.ID, l.ElementID
		}
		return f.ID, 0
	}
	for _, f := range want.Fields() {
		now, ok := live.FindFieldByName(f.Name)
		a, b := ids(f)
		if x, y := ids(now); ok && (x != a || y != b) {
			diff = append(diff, fmt.Sprintf("column %q has the field IDs %d (column) and %d (list element), not %d and %d", f.Name, x, y, a, b))
		}
	}
	return diff
}

func types(s *iceberg.Schema) map[string]string {
	out := map[string]string{}
	for _, f := range s.Fields() {
		out[f.Name] = f.Type.String()
	}
	return out
}

// specOf returns the Iceberg partition spec for a configured partitioning. If an earlier spec of the table has a field
// with the same column and transform, the new field gets the ID of that field. Otherwise it gets a new ID.
func (e *edition) specOf(by partition.Spec) (iceberg.PartitionSpec, error) {
	var fields []iceberg.PartitionField
	last := e.lastFieldID()
	add := func(column, name string, transform iceberg.Transform) error {
		source, ok := e.b.CurrentSchema().FindFieldByName(column)
		if !ok {
			return fmt.Errorf("partition table %s: it has no column %q", e.t.Table, column)
		}
		field := iceberg.PartitionField{SourceIDs: []int{source.ID}, Name: name, Transform: transform}
		if field.FieldID = e.fieldID(field); field.FieldID == 0 {
			last++
			field.FieldID = last
		}
		fields = append(fields, field)
		return nil
	}
	if _, shared := e.b.CurrentSchema().FindFieldByName(schemas.ColSource); shared {
		if err := add(schemas.ColSource, schemas.ColSource, iceberg.IdentityTransform{}); err != nil {
			return iceberg.PartitionSpec{}, err
		}
	}
	if by.Column != "" {
		text := string(by.Transform)
		if by.Width > 0 {
			text = fmt.Sprintf("%s[%d]", text, by.Width)
		}
		transform, err := iceberg.ParseTransform(text)
		if err == nil {
			err = add(by.Column, by.Field(), transform)
		}
		if err != nil {
			return iceberg.PartitionSpec{}, err
		}
	}
	return iceberg.NewPartitionSpec(fields...), nil
}

// fieldID returns the ID that an equal partition field has in an earlier spec, or 0 if there is no such field.
func (e *edition) fieldID(like iceberg.PartitionField) int {
	for _, s := range e.specs {
		for _, f := range s.Fields() {
			if f.SourceID() == like.SourceID() && f.Name == like.Name && f.Transform.Equals(like.Transform) {
				return f.FieldID
			}
		}
	}
	return 0
}

func (e *edition) lastFieldID() int {
	last := iceberg.PartitionDataIDStart - 1
	if e.base != nil && e.base.LastPartitionSpecID() != nil {
		last = max(last, *e.base.LastPartitionSpecID())
	}
	for _, s := range e.specs {
		last = max(last, s.LastAssignedFieldID())
	}
	return last
}

// useSpec returns the Iceberg partition spec for a configured partitioning. If the table does not have this spec,
// useSpec adds it.
func (e *edition) useSpec(by partition.Spec) (*iceberg.PartitionSpec, error) {
	want, err := e.specOf(by)
	if err != nil {
		return nil, err
	}
	next := 0
	for i, s := range e.specs {
		if s.CompatibleWith(&want) {
			return &e.specs[i], nil
		}
		next = max(next, s.ID()+1)
	}
	if err := e.do(table.NewAddPartitionSpecUpdate(&want, len(e.specs) == 0)); err != nil {
		return nil, fmt.Errorf("add partitions: %w", err)
	}
	spec, err := e.b.GetSpecByID(next)
	if err != nil {
		return nil, err
	}
	e.specs = append(e.specs, *spec)
	return spec, nil
}

// partitionOf returns the values of a file's partition fields, by the IDs of the fields. The argument spec is the
// partition spec of the file.
func (e *edition) partitionOf(spec *iceberg.PartitionSpec, f parquet.DataFile) (map[int]any, error) {
	out := map[int]any{}
	for _, of := range spec.Fields() {
		if of.Name == schemas.ColSource {
			out[of.FieldID] = f.Source
			continue
		}
		column, _ := e.b.CurrentSchema().FindFieldByName(f.PartitionBy.Column)
		typ, err := latticeOf(column.Type)
		if err != nil {
			return nil, err
		}
		value, err := f.PartitionBy.Value(f.Part, typ)
		if err != nil {
			return nil, err
		}
		day, ok := value.(int32)
		if ok && (of.Transform.Equals(iceberg.DayTransform{}) || of.Transform.Equals(iceberg.IdentityTransform{})) {
			value = iceberg.Date(day)
		}
		out[of.FieldID] = value
	}
	return out, nil
}
