// Package partition divides the rows of a table by the values of one column. Each partition has its own files, so
// that a query which filters by this column reads fewer files. The transforms are those of Apache Iceberg.
package partition

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Transform computes the partition of a row from the value of its column.
type Transform string

// The transforms. Bucket computes the number of a bucket from a hash of the value. Truncate keeps the first characters
// of a text, and rounds a number down to a multiple of the width.
const (
	Identity Transform = "identity"
	Bucket   Transform = "bucket"
	Truncate Transform = "truncate"
	Year     Transform = "year"
	Month    Transform = "month"
	Day      Transform = "day"
	Hour     Transform = "hour"
)

var transforms = []Transform{Identity, Bucket, Truncate, Year, Month, Day, Hour}

// Spec says how a table is partitioned. The zero value means that the table is not partitioned.
type Spec struct {
	Column    string
	Transform Transform
	Width     int // the number of buckets, or the width of truncate; 0 for other transforms
}

const grammar = "want COLUMN, COLUMN:TRANSFORM with identity, year, month, day or hour, COLUMN:bucket:N or COLUMN:truncate:WIDTH"

// Parse reads a text such as issued_on:month or id:bucket:16. A column without a transform is partitioned by day.
func Parse(text string) (Spec, error) {
	column, rest, stated := strings.Cut(text, ":")
	name, width, wide := strings.Cut(rest, ":")
	b := Spec{Column: column, Transform: Transform(name)}
	if !stated {
		b.Transform = Day
	}
	if column == "" || !slices.Contains(transforms, b.Transform) || wide != b.wide() {
		return Spec{}, errors.New(grammar)
	}
	if wide {
		n, err := strconv.ParseInt(width, 10, 32)
		if err != nil || n < 1 {
			return Spec{}, errors.New(grammar + "; N and WIDTH are whole numbers from 1")
		}
		b.Width = int(n)
	}
	return b, nil
}

// ParseOption reads the option of a destination, as [Parse] does. It refuses penstock's own columns. Penstock may
// change the value of such a column later, and the row would then be in the wrong partition.
func ParseOption(text string) (Spec, error) {
	b, err := Parse(text)
	if err == nil && strings.HasPrefix(b.Column, load.Prefix) {
		return Spec{}, fmt.Errorf("column %q is penstock's own, so it cannot partition tables; choose a column of the records", b.Column)
	}
	return b, err
}

func (b Spec) wide() bool { return b.Transform == Bucket || b.Transform == Truncate }

// String returns the text that [Parse] reads.
func (b Spec) String() string {
	switch {
	case b == Spec{}:
		return ""
	case b.wide():
		return fmt.Sprintf("%s:%s:%d", b.Column, b.Transform, b.Width)
	}
	return b.Column + ":" + string(b.Transform)
}

// MarshalText implements encoding.TextMarshaler.
func (b Spec) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Spec) UnmarshalText(text []byte) (err error) {
	*b, err = Parse(string(text))
	return err
}

// fitting returns the transforms that can partition a column of the given type. For decimals, only bucket is possible,
// because a decimal that gets more digits must stay in its partition. For times, identity is left out, because it would
// give almost every row its own partition.
func fitting(t arrow.DataType) []Transform {
	if schemas.SameType(t, schemas.JSON) {
		return nil
	}
	switch t.ID() {
	case arrow.BOOL:
		return []Transform{Identity}
	case arrow.INT64, arrow.STRING:
		return []Transform{Identity, Bucket, Truncate}
	case arrow.DECIMAL128:
		return []Transform{Bucket}
	case arrow.DATE32:
		return []Transform{Identity, Bucket, Year, Month, Day}
	case arrow.TIMESTAMP:
		return []Transform{Bucket, Year, Month, Day, Hour}
	}
	return nil
}

// MisfitError reports that the type of a column does not fit a transform.
type MisfitError struct {
	Spec
	Type arrow.DataType
}

// Error implements error.
func (e *MisfitError) Error() string {
	text := fmt.Sprintf("partition_by=%s: column %q has the type %s, which cannot be partitioned", e.Spec, e.Column, schemas.TypeName(e.Type))
	if fit := fitting(e.Type); fit != nil {
		text += fmt.Sprintf(" by %s; these transforms fit: %s", e.Transform, join(fit))
	}
	return text
}

func join(all []Transform) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// Check returns a [*MisfitError] if the values of a type cannot be partitioned.
func (b Spec) Check(t arrow.DataType) error {
	if slices.Contains(fitting(t), b.Transform) {
		return nil
	}
	return &MisfitError{b, t}
}

// Keeps reports whether each value stays in its partition if the column gets another type.
func (b Spec) Keeps(from, to arrow.DataType) bool {
	dated := from.ID() == arrow.DATE32 && to.ID() == arrow.TIMESTAMP
	return b.Check(to) == nil && (schemas.SameType(from, to) || dated && b.Transform != Bucket)
}

// Field returns the name of the partition field in the partition spec of an Iceberg table. Spark makes the same names.
func (b Spec) Field() string {
	switch b.Transform {
	case Identity:
		return b.Column
	case Bucket:
		return fmt.Sprintf("%s_bucket_%d", b.Column, b.Width)
	case Truncate:
		return fmt.Sprintf("%s_trunc_%d", b.Column, b.Width)
	}
	return b.Column + "_" + string(b.Transform)
}
