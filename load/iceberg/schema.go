//go:build iceberg

package iceberg

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
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
		return nil // this source's first commit to the table, or a commit that restores its columns
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
			diff = append(diff, fmt.Sprintf("column %q has the field IDs %d and %d, not %d and %d", f.Name, x, y, a, b))
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

func specOf(t parquet.TableFiles) (iceberg.PartitionSpec, error) {
	var all []iceberg.PartitionField
	add := func(column, name string, by iceberg.Transform) {
		f, _ := t.Columns.FieldsByName(column)
		all = append(all, iceberg.PartitionField{
			SourceIDs: []int{parquet.FieldNumber(f[0])}, FieldID: iceberg.PartitionDataIDStart + len(all), Name: name, Transform: by,
		})
	}
	if t.Columns.HasField(schemas.ColSource) {
		add(schemas.ColSource, schemas.ColSource, iceberg.IdentityTransform{})
	}
	if by := t.PartitionBy; by.Column != "" {
		text := string(by.Transform)
		if by.Width > 0 {
			text = fmt.Sprintf("%s[%d]", text, by.Width)
		}
		transform, err := iceberg.ParseTransform(text)
		if err != nil {
			return iceberg.PartitionSpec{}, err
		}
		add(by.Column, by.Field(), transform)
	}
	return iceberg.NewPartitionSpec(all...), nil
}

// partitionOf returns the partition of a file, by the ID of the partition field. The spec is that of the table's files.
func partitionOf(spec iceberg.PartitionSpec, t parquet.TableFiles, f parquet.DataFile) (map[int]any, error) {
	out := map[int]any{}
	for _, of := range spec.Fields() {
		if of.Name == schemas.ColSource {
			out[of.FieldID] = f.Source
			continue
		}
		column, _ := t.Columns.FieldsByName(t.PartitionBy.Column)
		typ := schemas.TypeOf(column[0])
		value, err := t.PartitionBy.Value(f.Part, typ)
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
