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

// setRange disables incremental reading if a pass must read the whole list. A pass in one transaction must,
// because the rows that it does not contain count as missing.
func (st *streamRun) setRange() {
	st.stream.Range = st.rangeOf()
	switch {
	case st.stream.Range.Whole, len(st.stream.Rules.Filter) > 0 && hidesKey(st.stream):
		st.stream.Incremental = schemas.Incremental{}
	case st.Options.Full:
		st.stream.Incremental.Full = time.Nanosecond
	}
}

// rules returns a fingerprint of how records become rows. If it changes, the whole list is read, because a
// pass may leave out records whose rows must change. A list that is always read whole has none.
func (st *streamRun) rules() string {
	if !st.stream.Incremental.Set() && !st.stream.Months.Set() {
		return ""
	}
	return strconv.FormatUint(definition(st.stream), 36)
}

var errForgotten = errors.New("a row must be written again")

// hasForgottenRows reports whether a column was widened and rows could not keep their original values. No
// partial reading returns them. // Invariant 11
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
