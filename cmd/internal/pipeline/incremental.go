package pipeline

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
)

// setRange disables incremental reading if a pass must read the whole list. A pass in one transaction must read all
// of it, because all rows that the pass does not contain count as missing.
func (st *streamRun) setRange() {
	st.stream.Range = st.rangeOf()
	switch {
	case st.stream.Range.Whole, len(st.stream.Rules.Filter) > 0 && hidesKey(st.stream):
		st.stream.Incremental = schemas.Incremental{}
	case st.Options.Full:
		st.stream.Incremental.Full = time.Nanosecond
	}
}

// rules returns a fingerprint of how records become rows. If it changes, the next pass reads the whole list, because
// an incremental pass would leave out records whose rows must change. It is "" for a list that is always read whole.
func (st *streamRun) rules() string {
	if !st.stream.Incremental.Set() && !st.stream.Months.Set() {
		return ""
	}
	return strconv.FormatUint(parents.Definition(st.stream), 36)
}

var errForgotten = errors.New("a row must be written again")

// hasForgottenRows reports whether rows lost their original values when a column was widened. Such rows must be read
// again, and an incremental pass may leave them out. // Invariant 11
func (k *destinationRun) hasForgottenRows(ctx context.Context, st *streamRun) (bool, error) {
	columns := []string{schemas.ColHash, st.stream.Table.Mode.EndColumn()}
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
