package pipeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/transform"
)

// maxSuspects bounds the suspicious keys that a run remembers. // Invariant 6
const maxSuspects = 10_000

// clockSlack is the tolerated difference between the source's clock and penstock's clock.
const clockSlack = 2 * time.Minute

type keyWatch struct {
	suspects map[uint64]int // keys that different records have on two pages: from the key's hash to the number of the first pass that found this
	tried    int
	settled  bool // a table has rows with this key, so the key cannot change any more
}

// clashes counts records that have the key of an earlier record but different content.
type clashes struct {
	lost    int64 // records rejected because the key is refuted
	open    int64 // records that may have changed while the list was read
	example string
	record  []byte
}

func (c clashes) facts(f *proof.Facts, r transform.Repeats) {
	f.Clashes, f.Clash, f.Differing = c.lost, c.example, c.open
	if r.Lossy && !f.Resumed && !f.Mingled {
		f.Uncompared = max(0, f.Duplicates-r.Compared())
	}
}

// keyError ends a pass before anything is committed. The stream is then read again.
type keyError struct {
	key     []string
	example string
	record  []byte // nil: the key is only suspicious, and a second reading decides
	table   []string
}

// Error describes why the key is refuted.
func (e *keyError) Error() string {
	switch {
	case e.table != nil:
		return fmt.Sprintf("the rows of the table are identified by %s", orNone(strings.Join(e.table, ", ")))
	case e.record == nil:
		return fmt.Sprintf("two different records may have the same key (%s)", strings.Join(e.key, ", "))
	}
	return fmt.Sprintf("two different records have the key %s = %s", strings.Join(e.key, ", "), e.example)
}
