package transform

import (
	"math/bits"
	"strconv"

	"github.com/zeebo/xxh3"
)

// Clash is a record that has the key of an earlier record of the pass and other
// content. The context that a record is told (its parent, its stage) is no part
// of the content, nor is a volatile field.
type Clash struct {
	Hash     uint64 // of the key; the same in every process
	Key      string // as JSON
	SamePage bool   // both records came on one page
	Record   []byte // the later one, as it came; valid until the judge returns
}

// Repeats says what came of the records whose key an earlier record of the pass
// had.
type Repeats struct {
	Same     int64 // the same content
	Changed  int64 // other content, judged as Changed
	Open     int64 // other content, judged as Open
	Rejected int64 // other content, judged as Refuted
	Lossy    bool  // there were too many keys to remember: some records were not compared
}

// Compared is how many of the records that were kept have been compared.
func (r Repeats) Compared() int64 { return r.Same + r.Changed + r.Open }

// Judgement says what a Clash means.
type Judgement int

// The judgements. The record is kept, as the later version, unless it is Refuted.
const (
	Open    Judgement = iota // nobody knows yet
	Changed                  // it is the same record, which changed while it was read
	Refuted                  // it is another record: it is rejected
)

// CompareKeys makes m compare records of one key from now on. judge decides about
// each that has other content than the first record of its key. A page may be read
// more than once, so judge may be called more than once for a record. CompareKeys
// must come before the first Append. m remembers as many keys as fit into most slots,
// a power of two: [MostKeySlots] unless memory is scarcer.
func (m *Mapper) CompareKeys(judge func(Clash) Judgement, most int) {
	m.clashes = &clashes{judge: judge, seen: keyTable{most: most}}
}

// Repeats returns the counts of the comparison so far.
func (m *Mapper) Repeats() Repeats {
	if m.clashes == nil {
		return Repeats{}
	}
	return m.clashes.repeats
}

// clashes finds records that have one key and other content.
type clashes struct {
	judge func(Clash) Judgement
	seen  keyTable
	key   []byte // of the record at hand
	page  uint32 // ordinal of the first record of the page being read

	repeats Repeats
	before  Repeats // as of the beginning of the batch
}

// pageFirst is the ordinal of the first record of the page that was read last.
func (c *clashes) pageFirst() int64 {
	if c == nil {
		return 0
	}
	return int64(c.page)
}

// begin notes the ordinal of the first record of the page that is read next.
func (c *clashes) begin(ordinal int64) {
	if c != nil {
		c.page = uint32(ordinal)
	}
}

// undo takes the counts back to the beginning of the batch.
func (c *clashes) undo() {
	if c != nil {
		c.repeats = c.before
	}
}

// flush notes that a batch was handed away.
func (c *clashes) flush() {
	if c != nil {
		c.before = c.repeats
	}
}

// contextName is the member in which a record is told where it was found.
const contextName = "_context"

// clashing reports whether the record raw[begin:end], stored in row, must be
// rejected because an earlier record has its key.
func (m *Mapper) clashing(begin, end, row int) bool {
	c := m.clashes
	if c == nil || m.stale || len(m.key) == 0 {
		return false // a stale page is read again
	}
	c.key = c.key[:0]
	for _, k := range m.key {
		c.key = append(k.appendKeyPart(c.key, row), 0)
	}
	hash := xxh3.Hash(c.key)
	first, known := c.seen.put(hash, keyEntry{m.content(), uint32(m.fetched)})
	c.repeats.Lossy = c.seen.lossy
	switch {
	case !known, first.ordinal == uint32(m.fetched): // the record itself is read again
		return false
	case first.content == m.content():
		c.repeats.Same++
		return false
	}
	switch c.judge(Clash{Hash: hash, Key: m.keyOf(row), SamePage: first.ordinal >= c.page, Record: m.raw[begin:end]}) {
	case Refuted:
		c.repeats.Rejected++
		return true
	case Changed:
		c.repeats.Changed++
	default:
		c.repeats.Open++
	}
	return false
}

// content is the hash of the record at hand without the context it was told.
func (m *Mapper) content() uint32 {
	added, mixed := m.sum.added, m.sum.mixed
	if h := m.contextHash; h != 0 {
		added -= h
		mixed ^= bits.RotateLeft64(h, 29) * mixing
	}
	v := added ^ mixed>>7
	return uint32(v ^ v>>32)
}

// appendKeyPart appends the value of row as text. A number and the text of it are
// one key: the column may grow to text while the pass goes on.
func (c *column) appendKeyPart(dst []byte, row int) []byte {
	switch c.kind {
	case kindInt:
		return strconv.AppendInt(dst, c.ints[row], 10)
	case kindText:
		return append(dst, c.cell(row)...)
	}
	return c.appendJSON(dst, row)
}

// keyEntry is what is remembered of the first record of a key.
type keyEntry struct{ content, ordinal uint32 }

// keyTable maps hashes of keys to entries, in open addressing. Beyond its most slots a
// new key replaces an old one. // Invariant 6
type keyTable struct {
	most  int // slots
	slots []keySlot
	used  int
	lossy bool
}

// keySlot is 16 bytes, so that a look takes one line of the cache.
type keySlot struct {
	hash uint64 // 0: free
	keyEntry
}

const keySlotsFirst = 1 << 8

// MostKeySlots is how many slots the comparison of keys takes at most: 16 MiB.
const MostKeySlots = 1 << 20

// put returns the entry of hash and true, or stores e and returns false.
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

// keyProbes is how many slots a full table looks at for a key.
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
