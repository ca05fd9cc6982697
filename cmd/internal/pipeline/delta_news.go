package pipeline

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// news describes one commit of deltas. The running pass needs it to continue from the cursor of that commit.
type news struct {
	from, to state.Cursor
	rows     []newsRow
}

type newsRow struct {
	of   *entity
	key  string
	hash string // hash of its row; "" if the record is gone
}

func (x *delta) news(dest string, from, to state.Cursor, m *mapped) (*news, error) {
	if x.overlays[dest] == nil {
		return nil, nil
	}
	n := &news{from: from, to: to}
	requested := map[string]*entity{}
	for _, e := range x.requested {
		if key, ok := reject.PlainKey(e.key); ok {
			requested[key] = e
		}
	}
	for _, e := range slices.Concat(x.gone, x.leftOut(m)) {
		if key, ok := reject.PlainKey(e.key); ok {
			n.rows = append(n.rows, newsRow{e, key, ""})
		}
	}
	for _, b := range m.batches {
		if b.Table.Name != x.q.stream.Table.Name {
			continue
		}
		cells, err := rowhash.Columns(b.Batch, append(slices.Clone(x.q.stream.Key), schemas.ColHash))
		if err != nil {
			return nil, err
		}
		for row := range int(b.Batch.NumRows()) {
			key := rowhash.KeyText(cells[:1], row)
			if e := requested[key]; e != nil {
				n.rows = append(n.rows, newsRow{e, key, rowhash.Text(cells[1], row)})
			}
		}
	}
	return n, nil
}

func (l *overlay) record(n *news) {
	if l == nil || n == nil {
		return
	}
	if l.to != n.from {
		l.from = n.from
	}
	l.to = n.to
	for _, r := range n.rows {
		before := l.known[r.key]
		l.known[r.key] = &deltaRow{requestKey: r.of.key, hash: r.hash, event: r.of.last, inPass: before != nil && before.inPass || l.inPass.has(r.key)}
	}
}

// settle handles a commit whose outcome is unknown. The commit has succeeded if its cursor is the cursor that the
// destination stores.
func (l *overlay) settle(stored state.Cursor) {
	if l != nil && l.doubt != nil && l.doubt.to == stored {
		l.record(l.doubt)
	}
	if l != nil {
		l.doubt = nil
	}
}

const answerTime = 5 * time.Second

// unanswered finds out whether a commit that returned an error has succeeded. If only the answer was lost, the stored
// cursor has moved. If the cursor cannot be read either, the running pass checks it again before its next commit.
// Invariants 1, 2
func (x *delta) unanswered(ctx context.Context, p *destinationPosition, n *news, next state.Cursor, failed error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	at, err := p.dest.Cursor(ctx, x.key(x.q.stream.Name))
	l := x.overlays[p.dest.Name]
	switch {
	case err != nil && l != nil:
		l.doubt = n
	case err == nil && at == next:
		l.record(n)
		return nil
	}
	return failed
}
