package transform

import (
	"strconv"

	"github.com/zeebo/xxh3"
)

// Clash is a record with the same key as an earlier record of the pass, but with different content. The content does
// not include volatile fields. It also does not include the member _context, in which penstock adds the record's parent
// or stage.
type Clash struct {
	Hash     uint64 // hash of the key, equal in all processes
	Key      string // the key as JSON
	SamePage bool   // both records are on the same page
	Record   []byte // the later record, as received; valid only during the call of the judge function
}

// Repeats counts the records with the same key as an earlier record of the pass.
type Repeats struct {
	Same     int64 // same content as the earlier record
	Changed  int64 // different content, judged as ClashChanged
	Open     int64 // different content, judged as ClashOpen
	Rejected int64 // different content, judged as ClashRefuted
	Lossy    bool  // there were too many keys to remember all, so some records were not compared
}

// Compared returns how many records were compared with an earlier record and kept.
func (r Repeats) Compared() int64 { return r.Same + r.Changed + r.Open }

// ClashVerdict says what a Clash means.
type ClashVerdict int

// With ClashOpen and ClashChanged, the record is stored as the later version.
const (
	ClashOpen    ClashVerdict = iota // not known yet
	ClashChanged                     // the same record, which changed while the list was read
	ClashRefuted                     // a different record, which is rejected
)

// CompareKeys makes m compare records with the same key. If a record does not have the same content as the first record
// with this key, m calls the function judge. The function may be called several times for one record, because m may
// read a page several times. CompareKeys must be called before the first Append. maxSlots is the maximum number of
// slots for keys, a power of two: use [MostKeySlots] unless memory is scarce.
func (m *Mapper) CompareKeys(judge func(Clash) ClashVerdict, maxSlots int) {
	m.clashes = &clashes{judge: judge, seen: keyTable{most: maxSlots}}
}

// Repeats returns the counts of the comparison so far.
func (m *Mapper) Repeats() Repeats {
	if m.clashes == nil {
		return Repeats{}
	}
	return m.clashes.repeats
}

type clashes struct {
	judge func(Clash) ClashVerdict
	seen  keyTable
	key   []byte // key of the current record
	page  uint32 // ordinal of the first record of the current page

	repeats Repeats
	before  Repeats // counts at the beginning of the batch
}

func (c *clashes) pageFirst() int64 {
	if c == nil {
		return 0
	}
	return int64(c.page)
}

func (c *clashes) begin(ordinal int64) {
	if c != nil {
		c.page = uint32(ordinal)
	}
}

func (c *clashes) undo() {
	if c != nil {
		c.repeats = c.before
	}
}

func (c *clashes) flush() {
	if c != nil {
		c.before = c.repeats
	}
}

const contextName = "_context"

func (m *Mapper) clashing(begin, end, row int) bool {
	c := m.clashes
	if c == nil || m.tables.stale || len(m.tables.key.columns) == 0 {
		return false // after a type was widened, the page is read again
	}
	c.key = c.key[:0]
	for _, k := range m.tables.key.columns {
		c.key = append(k.appendKeyPart(c.key, row), 0)
	}
	hash, content := xxh3.Hash(c.key), m.read.hash.content()
	first, known := c.seen.put(hash, keyEntry{content, uint32(m.fetched)})
	c.repeats.Lossy = c.seen.lossy
	switch {
	case !known, first.ordinal == uint32(m.fetched): // equal ordinals: the page is read again, and this is the same record
		return false
	case first.content == content:
		c.repeats.Same++
		return false
	}
	switch c.judge(Clash{Hash: hash, Key: m.tables.key.of(row), SamePage: first.ordinal >= c.page, Record: m.raw[begin:end]}) {
	case ClashRefuted:
		c.repeats.Rejected++
		return true
	case ClashChanged:
		c.repeats.Changed++
	default:
		c.repeats.Open++
	}
	return false
}

// appendKeyPart writes the number 1 like the string "1", because the column may be widened to text during the pass.
func (c *vector) appendKeyPart(dst []byte, row int) []byte {
	switch c.kind {
	case kindInt:
		return strconv.AppendInt(dst, c.ints[row], 10)
	case kindText:
		return append(dst, c.cell(row)...)
	}
	return c.appendJSON(dst, row)
}

type keyEntry struct{ content, ordinal uint32 }

// keyTable is a hash table with open addressing. It grows up to a maximum of slots. When three quarters of this maximum
// are used, new keys may replace old keys. // Invariant 6
type keyTable struct {
	most  int // maximum number of slots
	slots []keySlot
	used  int
	lossy bool
}

// keySlot has 16 bytes, so that a lookup usually reads one cache line.
type keySlot struct {
	hash uint64 // 0: the slot is free
	keyEntry
}

const keySlotsFirst = 1 << 8

// MostKeySlots is the usual maximum number of slots for [Mapper.CompareKeys]. They take 16 MiB.
const MostKeySlots = 1 << 20

func (t *keyTable) put(hash uint64, e keyEntry) (keyEntry, bool) {
	if hash == 0 {
		hash = 1
	}
	if t.full() {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	at := hash & mask
	for n := 0; t.slots[at].hash != 0; n++ {
		if t.slots[at].hash == hash {
			return t.slots[at].keyEntry, true
		}
		if n == keyProbes && t.full() {
			t.lossy = true
			at = hash & mask
			t.used--
			break
		}
		at = (at + 1) & mask
	}
	t.slots[at] = keySlot{hash, e}
	t.used++
	return e, false
}

const keyProbes = 16

func (t *keyTable) full() bool { return t.used >= len(t.slots)/4*3 }

func (t *keyTable) grow() {
	if len(t.slots) >= t.most {
		return
	}
	old := t.slots
	*t = keyTable{most: t.most, slots: make([]keySlot, max(keySlotsFirst, 2*len(old)))}
	for _, s := range old {
		if s.hash != 0 {
			t.put(s.hash, s.keyEntry)
		}
	}
}
