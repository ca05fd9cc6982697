//go:build iceberg

package iceberg

import (
	"errors"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// wantedOrder returns the sort order of a table: by the first key column, if it is a number or a text. Penstock does
// not sort rows. But sources often list records in the order of their IDs. If the rows of a file are in this order, the
// file is marked as sorted.
func (e *edition) wantedOrder() (*table.SortOrder, error) {
	if len(e.t.Key) == 0 {
		return &table.UnsortedSortOrder, nil
	}
	f, ok := e.b.CurrentSchema().FindFieldByName(e.t.Key[0])
	if !ok || !f.Type.Equals(iceberg.PrimitiveTypes.Int64) && !f.Type.Equals(iceberg.PrimitiveTypes.String) {
		return &table.UnsortedSortOrder, nil
	}
	order, err := table.NewSortOrder(1, []table.SortField{{
		SourceIDs: []int{f.ID}, Transform: iceberg.IdentityTransform{}, Direction: table.SortASC, NullOrder: table.NullsFirst,
	}})
	return &order, err
}

// setOrder sets the sort order of the table. If another program has set an order, and its columns still exist, this
// order stays. // Invariant 16
func (e *edition) setOrder(now *table.SortOrder) error {
	want, err := e.wantedOrder()
	if err != nil {
		return err
	}
	switch {
	case e.base != nil && sameOrder(now, want):
		e.order = now.OrderID()
		return nil
	case !now.IsUnsorted() && now.CheckCompatibility(e.b.CurrentSchema()) == nil:
		return nil
	}
	if err := errors.Join(e.do(table.NewAddSortOrderUpdate(want)), e.do(table.NewSetDefaultSortOrderUpdate(-1))); err != nil {
		return err
	}
	e.order = want.OrderID()
	return nil
}

func sameOrder(a, b *table.SortOrder) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !a.Field(i).Equals(b.Field(i)) {
			return false
		}
	}
	return true
}
