package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// column has the values of one field, and says how the field's values are stored.
type column struct {
	vector

	name     string
	source   string         // JSON pointer from a row of the table to the field
	declared arrow.DataType // type that the stream declares for the field; may be nil
	quoted   bool           // strings with plain decimals are stored as numbers
	verbatim bool           // scalars are stored as the source spelled them
	key      bool           // part of the table's key; only scalars are accepted
	empty    bool           // there was an empty array, which the column's type cannot hold
	counted  bool           // the column counts toward the limit of columns: see bound
	always   bool           // the column stores values even beyond the limit of columns
}

// settle prepares the column for values of its current type. It drops the stored values.
func (c *column) settle() {
	c.vector.settle()
	c.anyInt = c.anyInt || isDecimal(c.declared)
	c.empty = false
}

// finish returns an array that takes over the buffers of the column. Afterwards the column is empty.
func (c *column) finish(rows int) arrow.Array {
	c.empty = false
	return c.vector.finish(rows)
}
