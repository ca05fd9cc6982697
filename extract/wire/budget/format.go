package budget

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"
)

// The stored form of a record: a version, the length and the checksum of the fields, and the fields. It is the same in
// a file and in a database. Bytes after the fields are ignored, because a file keeps its length when a shorter record
// is written.
const (
	version    = 3
	headLength = 12
)

var (
	errDamaged = errors.New("the stored rate limit is damaged")

	// errOtherVersion is the error for a record that another release of penstock has stored.
	errOtherVersion = errors.New("this version cannot read the stored rate limit")
)

func checksum(fields []byte) uint32 { return crc32.Checksum(fields, crc32.MakeTable(crc32.Castagnoli)) }

// store appends the stored form of r to b.
func (r *record) store(b []byte) []byte {
	head := len(b)
	c := coder{bytes: append(b, make([]byte, headLength)...)}
	r.code(&c)
	fields := c.bytes[head+headLength:]
	binary.LittleEndian.PutUint32(c.bytes[head:], version)
	binary.LittleEndian.PutUint32(c.bytes[head+4:], uint32(len(fields)))
	binary.LittleEndian.PutUint32(c.bytes[head+8:], checksum(fields))
	return c.bytes
}

// load sets r to a stored record.
func (r *record) load(stored []byte) error {
	*r = record{members: r.members[:0], unleased: r.unleased[:0]}
	if len(stored) < headLength {
		return errDamaged
	}
	head, fields := stored[:headLength], stored[headLength:]
	n := binary.LittleEndian.Uint32(head[4:])
	if uint64(n) > uint64(len(fields)) || binary.LittleEndian.Uint32(head[8:]) != checksum(fields[:n]) {
		return errDamaged
	}
	if binary.LittleEndian.Uint32(head) != version {
		return errOtherVersion
	}
	c := coder{bytes: fields[:n], reads: true}
	if r.code(&c); c.short || len(c.bytes) > 0 {
		return errDamaged
	}
	return nil
}

// coder appends fields to bytes, or reads them from bytes.
type coder struct {
	bytes []byte
	reads bool
	short bool // bytes end too early, or a field is out of range
}

// fields handles the fields to which the arguments point. It appends all of them, or reads all of them.
func (c *coder) fields(all ...any) {
	for _, field := range all {
		switch p := field.(type) {
		case *int:
			number(c, p)
		case *int64:
			number(c, p)
		case *uint64:
			number(c, p)
		case *instant:
			number(c, p)
		case *time.Duration:
			number(c, p)
		case *reason:
			number(c, p)
		case *Rate:
			c.fields(&p.Limit, &p.Window)
		case *float64:
			v := math.Float64bits(*p)
			number(c, &v)
			*p = math.Float64frombits(v)
		case *bool:
			v := 0
			if *p {
				v = 1
			}
			number(c, &v)
			*p = v == 1
		}
	}
}

func number[T ~int | ~int64 | ~uint64 | ~uint32 | ~uint8](c *coder, p *T) {
	if !c.reads {
		c.bytes = binary.AppendVarint(c.bytes, int64(*p))
		return
	}
	v, n := binary.Varint(c.bytes)
	if n <= 0 {
		c.short, c.bytes = true, nil
		return
	}
	*p, c.bytes = T(v), c.bytes[n:]
}

// code appends or reads all fields of the record. When you change their order or meaning, change the version.
func (r *record) code(c *coder) {
	g, l, w := &r.gate, &r.limit, &r.window
	c.fields(&r.stamp, &r.ahead, &r.paced, &r.sent, &r.refused)
	c.fields(&g.until, &g.reason, &g.epoch, &g.probing, &g.probeUntil, &g.strikes, &g.failures, &g.outages)
	c.fields(&l.configured, &l.reserve, &l.rate, &l.share, &l.stumbled, &l.guessed, &l.windowGuessed, &l.learned, &l.refusedRate)
	c.fields(&l.largestRemaining, &l.stated, &l.foreign[0], &l.foreign[1], &l.sawHeaders, &l.windowEnds, &l.cleanWindows, &l.used, &l.taken, &l.takenBefore)
	for i := range l.history.seconds {
		c.fields(&l.history.seconds[i])
	}
	c.fields(&l.history.last)
	c.fields(&w.width, &w.oldest, &w.newest, &w.answers, &w.fastest, &w.previous, &w.slowest, &w.seen, &w.spanEnds, &w.guard, &w.maxGuard, &w.mean, &w.refused)
	w.code(c)
	n := len(r.members)
	number(c, &n)
	for i := 0; i < n && !c.short; i++ {
		if c.reads {
			r.members = append(r.members, member{})
		}
		c.fields(&r.members[i].id, &r.members[i].seen, &r.members[i].last, &r.members[i].need)
	}
	c.fields(&r.loose, &r.looseFrom, &r.others)
	r.codeUnleased(c)
}

// codeUnleased appends or reads the reserved requests that no member has leased. The two instants of a request are
// stored as differences from the instants of the previous request, because small numbers take fewer bytes.
func (r *record) codeUnleased(c *coder) {
	n := len(r.unleased)
	number(c, &n)
	var before grant
	for i := 0; i < n && !c.short; i++ {
		var g grant
		if !c.reads {
			g = r.unleased[i]
		}
		at, noted := g.at-before.at, g.noted-before.noted
		c.fields(&at, &noted, &g.counted)
		if c.reads {
			g.at, g.noted = before.at+at, before.noted+noted
			r.unleased = append(r.unleased, g)
		}
		before = g
	}
}

// code appends or reads the buckets that are not empty. For each bucket, it stores the distance from the previous
// bucket, and the count of requests.
func (l *requestWindow) code(c *coder) {
	if l.oldest < 0 || l.newest == math.MaxInt64 || l.newest-l.oldest >= buckets {
		c.short = true
		return
	}
	n := 0
	for b := l.oldest; !c.reads && b <= l.newest; b++ {
		if l.counts[b%buckets] > 0 {
			n++
		}
	}
	number(c, &n)
	for b := l.oldest; n > 0 && !c.short; n-- {
		var gap int64
		for !c.reads && l.counts[(b+gap)%buckets] == 0 {
			gap++
		}
		number(c, &gap)
		if gap < 0 || gap > l.newest-b {
			c.short = true
			return
		}
		b += gap
		number(c, &l.counts[b%buckets])
		if c.reads {
			l.total += int64(l.counts[b%buckets])
		}
		b++
	}
}
