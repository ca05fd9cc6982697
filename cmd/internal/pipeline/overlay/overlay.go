// Package overlay is for streams that have both passes and webhook events. Within one process, both commit to the same
// table. The lock of the stream decides which of the two may commit. An overlay lets events commit between two commits
// of a pass. It also notes the records of these events, so that the pass does not replace them with older ones.
package overlay

import (
	"context"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Overlay lets webhook deltas commit to one destination between two commits of a running pass, as part of that pass.
// If a page contains a record that a delta has committed, the page may be older than the delta. So the pass does not
// write the page's row. If that row differs from the delta's, the record is requested once more, because the page may
// also be newer. // Invariants 8, 12
//
// Only the holder of the stream's lock may use the overlay.
type Overlay struct {
	dest   load.Destination
	Pass   load.Pass // deltas commit as part of this pass
	stamp  string
	inPass *Keys
	closed bool

	from, to state.Cursor         // the cursor before and after the commits of deltas; "" if there were none
	known    map[string]*deltaRow // records committed by deltas, by key as text
	doubt    *Commit              // a commit whose outcome is unknown; nil for none
}

type deltaRow struct {
	Row
	inPass bool // the pass has read the record
}

// maxDeltaRows limits the records of an overlay. Further events wait for the end of the pass. // Invariant 6
const maxDeltaRows = 50_000

// Follow returns the cursor of the stream. The parameter stored is the cursor that the pass knows. Follow returns
// another cursor only if deltas have moved it.
func (l *Overlay) Follow(ctx context.Context, k state.Key, stored state.Cursor) state.Cursor {
	if l == nil {
		return stored
	}
	if l.doubt != nil {
		if at, err := l.dest.Cursor(ctx, k); err == nil { // if the read fails, the commit fails too and reports it
			l.Settle(at)
		}
	}
	if l.to == "" || l.from != stored {
		return stored
	}
	to := l.to
	l.from, l.to = "", ""
	return to
}

// Open reports whether deltas may still commit. A nil Overlay is not open.
func (l *Overlay) Open() bool { return l != nil && !l.closed }

// Close makes the overlay refuse further deltas. A pass calls it after its destination has dropped out of the pass.
func (l *Overlay) Close() {
	if l != nil {
		l.closed = true
	}
}

// Admits reports whether deltas may commit through d. The parameter d must be the connection of the pass: another
// connection to the same destination does not know which rows the pass has read.
func (l *Overlay) Admits(d load.Destination) bool {
	return l.Open() && len(l.known) < maxDeltaRows && unwrap(l.dest) == unwrap(d)
}

// Has reports whether deltas have committed the record with this key during the pass.
func (l *Overlay) Has(key string) bool { return l != nil && l.known[key] != nil }

func unwrap(d load.Destination) load.Destination {
	if w, ok := d.(interface{ Pooled() load.Destination }); ok {
		return unwrap(w.Pooled())
	}
	return d
}

// Stamp returns the run id for the rows that deltas commit during the pass.
func Stamp(overlays map[string]*Overlay) (stamp string) {
	for _, l := range overlays {
		stamp = max(stamp, l.stamp)
	}
	return stamp
}

// Commit describes one commit of deltas. The running pass needs it to continue from the cursor of that commit.
type Commit struct {
	From, To state.Cursor // the cursor before and after the commit
	Rows     []Row
}

// Row is one record that a commit of deltas has changed.
type Row struct {
	Key        string // the key as the table stores it, converted to text
	RequestKey string // the key as the source writes it, a JSON scalar
	Hash       string // hash of its row; "" if the record is gone
	Event      int64  // ordinal of the event
}

// New returns the overlay of a destination for a pass whose rows have this stamp. The parameter keys contains the keys
// that the pass has read.
func New(dest load.Destination, pass load.Pass, stamp string, keys *Keys) *Overlay {
	return &Overlay{dest: dest, Pass: pass, stamp: stamp, inPass: keys, known: map[string]*deltaRow{}}
}

// Record notes a commit of deltas.
func (l *Overlay) Record(n *Commit) {
	if l == nil || n == nil {
		return
	}
	if l.to != n.From {
		l.from = n.From
	}
	l.to = n.To
	for _, r := range n.Rows {
		before := l.known[r.Key]
		l.known[r.Key] = &deltaRow{Row: r, inPass: before != nil && before.inPass || l.inPass.has(r.Key)}
	}
}

// Suspect notes a commit of deltas whose outcome is unknown.
func (l *Overlay) Suspect(n *Commit) {
	if l != nil {
		l.doubt = n
	}
}

// Settle handles a commit whose outcome is unknown. The commit has succeeded if its cursor is the cursor that the
// destination stores.
func (l *Overlay) Settle(stored state.Cursor) {
	if l != nil && l.doubt != nil && l.doubt.To == stored {
		l.Record(l.doubt)
	}
	if l != nil {
		l.doubt = nil
	}
}
