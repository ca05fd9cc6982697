package facts

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// row is a row of a batch. Its methods return a zero value for null, and for a column that does not exist: tables
// from an earlier release may lack it.
type row struct {
	batch arrow.RecordBatch
	at    int
}

func column[A arrow.Array](r row, name string) (a A, ok bool) {
	i := r.batch.Schema().FieldIndices(name)
	if len(i) == 0 || r.batch.Column(i[0]).IsNull(r.at) {
		return a, false
	}
	a, ok = r.batch.Column(i[0]).(A)
	return a, ok
}

// text returns a copy, because the memory of the batch is released.
func (r row) text(name string) string {
	i := r.batch.Schema().FieldIndices(name)
	if len(i) == 0 || r.batch.Column(i[0]).IsNull(r.at) {
		return ""
	}
	if e, ok := r.batch.Column(i[0]).(array.ExtensionArray); ok {
		return strings.Clone(e.Storage().ValueStr(r.at))
	}
	return strings.Clone(r.batch.Column(i[0]).ValueStr(r.at))
}

func (r row) number(name string) int64 {
	if a, ok := column[*array.Int64](r, name); ok {
		return a.Value(r.at)
	}
	return 0
}

func (r row) flag(name string) bool {
	a, ok := column[*array.Boolean](r, name)
	return ok && a.Value(r.at)
}

func (r row) time(name string) time.Time {
	if a, ok := column[*array.Timestamp](r, name); ok {
		return a.Value(r.at).ToTime(a.DataType().(*arrow.TimestampType).Unit).UTC()
	}
	return time.Time{}
}

func scan(ctx context.Context, d load.Destination, t schemas.Table, visit func(row)) error {
	return d.Scan(ctx, t.Name, nil, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			visit(row{b, i})
		}
		return nil
	})
}

func asked(err error) error {
	switch {
	case errors.Is(err, serve.ErrUnknown):
		return errors.Join(board.ErrUnknown, err)
	case errors.Is(err, serve.ErrBusy):
		return errors.Join(board.ErrBusy, err)
	}
	return err
}

func contains(all []string, s string) bool { return slices.Contains(all, s) }

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// decode parses JSON. Fields that cannot be parsed stay zero.
func decode[T any](text string) (v T) {
	_ = json.Unmarshal([]byte(text), &v)
	return v
}
