package pipeline

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// wholly has the whole list read where a pass stands for all of it: what one in a
// single transaction does not carry is taken for gone. Of a backfill it is the part
// that is asked for.
func (st *streamRun) wholly() {
	st.stream.Range = st.rangeOf()
	switch {
	case st.stream.Range.Whole, len(st.stream.Rules.Filter) > 0 && hidesKey(st.stream):
		st.stream.Incremental = schemas.Incremental{}
	case st.Options.Full:
		st.stream.Incremental.Full = time.Nanosecond // the whole pass is due, and checks the incremental ones
	}
}

// rules is a fingerprint of what becomes of the records of a list that is read
// in parts: where it has changed, rows do that no reading of a part carries. It
// is "" for other lists.
func (st *streamRun) rules() string {
	if !st.stream.Incremental.Set() && !st.stream.Months.Set() {
		return ""
	}
	return strconv.FormatUint(definition(st.stream), 36)
}

// errForgotten ends the search for one.
var errForgotten = errors.New("a row is to be written anew")

// forgotten reports whether rows are to be written anew, as they were when a
// column was widened and could not keep them as they had come: no reading of a
// part carries them. // Invariant 11
func (k *destinationRun) forgotten(ctx context.Context, st *streamRun) (bool, error) {
	columns := []string{schemas.ColHash, standing(st.stream)}
	err := k.dest.Scan(ctx, st.stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		for row := range int(b.NumRows()) {
			if b.Column(1).IsNull(row) && cellText(b.Column(0), row) == "" {
				return errForgotten
			}
		}
		return nil
	})
	if errors.Is(err, errForgotten) {
		return true, nil
	}
	return false, err
}
