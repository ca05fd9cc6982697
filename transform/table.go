package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

type table struct {
	name   string
	path   string // JSON pointer from the record, without array positions; "" for the root table
	place  string // the path, or for one of two tables with this path, the path and a slash: see tableSet.child
	within string // JSON pointer from a row of the parent to the array; "" for the root table
	parent *table // nil for the root table
	level  int    // 0 for the root table

	object   *object
	children []*table

	rows      int
	parentRow []int32 // in a child table: for each row, the row of its parent
	position  []int32 // in a child table: for each row, its position in the array
	used      bool    // the table has had rows, or the destination has it
	known     bool    // the destination has the table

	columns []*column
	rest    *column            // column of the root table for members beyond the limit; nil if there were none
	sources map[string]*column // columns by JSON pointer from a row
	namer   *schemas.Namer

	schema *arrow.Schema // describes the columns, and is valid if layout equals tableSet.version
	layout int
}

// add adds a row for an element of an array. The array is in the row parentRow of the parent table, and the element has
// the given index in the array.
func (t *table) add(parentRow, index int) (row int) {
	row = t.rows
	t.rows++
	t.used = true
	t.parentRow = append(t.parentRow, int32(parentRow))
	t.position = append(t.position, int32(index))
	return row
}

func (t *table) truncate(row int) {
	t.rows = row
	if t.parent != nil {
		t.parentRow, t.position = t.parentRow[:row], t.position[:row]
	}
	for _, c := range t.columns {
		c.truncate(row)
	}
	for _, child := range t.children {
		left := child.rows
		for left > 0 && int(child.parentRow[left-1]) >= row {
			left--
		}
		child.truncate(left)
	}
}

// clear removes all rows of t and of the tables below it. It prepares each column for its current type.
func (t *table) clear() {
	t.rows = 0
	t.parentRow, t.position = t.parentRow[:0], t.position[:0]
	for _, c := range t.columns {
		c.settle()
	}
	for _, child := range t.children {
		child.clear()
	}
}

func (t *table) each(f func(*table)) {
	f(t)
	for _, child := range t.children {
		child.each(f)
	}
}
