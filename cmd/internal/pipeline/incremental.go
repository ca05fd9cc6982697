package pipeline

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
)

// setRange sets the range that the run reads. It disables incremental reading if a pass must read the whole list. A
// pass in one transaction must read it, because the rows that such a pass does not contain count as missing.
func (st *streamRun) setRange() {
	st.stream.Range = st.rangeOf()
	switch {
	case st.stream.Range.Whole, len(st.stream.Rules.Filter) > 0 && hidesKey(st.stream):
		st.stream.Incremental = schemas.Incremental{}
	case st.Options.Full:
		st.stream.Incremental.Full = time.Nanosecond // makes a whole pass due, which checks the incremental passes
	}
}

// rules returns a fingerprint of how records become rows, for a stream whose passes may leave out records. If the
// fingerprint changes, the rows of those records must change too, so the whole list is read. The fingerprint is "" for a
// list that is always read whole.
func (st *streamRun) rules() string {
	if !st.stream.Incremental.Set() && !st.stream.Months.Set() {
		return ""
	}
	return strconv.FormatUint(definition(st.stream), 36)
}

// errForgotten ends the scan at the first row that must be written again.
var errForgotten = errors.New("a row must be written again")

// hasForgottenRows reports whether the table has rows that must be written again, because a column was widened and they
// could not keep their original values. No partial reading returns them. // Invariant 11
func (k *destinationRun) hasForgottenRows(ctx context.Context, st *streamRun) (bool, error) {
	columns := []string{schemas.ColHash, endColumn(st.stream)}
	err := k.dest.Scan(ctx, st.stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		for row := range int(b.NumRows()) {
			if b.Column(1).IsNull(row) && rowhash.Text(b.Column(0), row) == "" {
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
