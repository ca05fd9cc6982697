package wire

import (
	"hash/crc32"
	"os"
	"time"
	"unsafe"
)

// instant is a time on the clock that a budget record is kept by: nanoseconds, of which
// only differences count.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }
func (i instant) sub(o instant) time.Duration { return time.Duration(i - o) }
func (i instant) before(o instant) bool       { return i < o }
func (i instant) second() int64               { return int64(i) / int64(time.Second) }

// budgetRecord is all that is known about what a credential has asked for and may ask
// for. Processes that share one credential share its budget record: it holds no pointer,
// so that its memory can be written to a file as it is.
type budgetRecord struct {
	layout  uint64 // of this struct: another release's budget record is not read
	written uint64 // checksum of what follows

	stamp instant       // of the last change
	ahead time.Duration // of the clock of the budget record, before that of the machine

	ledger  requestWindow
	ceiling limitEstimate
	gate    breaker
	next    instant // when the pace lets the next request go
	sent    uint64
	refused uint64
	members [mostMembers]member
}

// member is a process, or a governor in one, that the budget record is shared with.
type member struct {
	id     uint64
	seen   instant
	unsent int64 // requests that have leave to go, and have not gone
	pid    int64 // of its process
	home   int64 // where that number means it; 0: unknown
}

const (
	mostMembers = 32

	// memberLease is how long a member lives without a sign of life. It is more
	// than it takes to give up a connection, so that whoever is silent for longer
	// is dead, or has been stopped and lets go of its leaves when it wakes.
	memberLease = 30 * time.Second
)

// alive reports whether m may yet send what it has leave for.
func (m *member) alive(now instant) bool { return m.id != 0 && now.sub(m.seen) < memberLease }

// member finds the place of a member, or makes one; nil if there is none left.
func (b *budgetRecord) member(id uint64, now instant) *member {
	var free *member
	for i := range b.members {
		m := &b.members[i]
		switch {
		case m.id == id:
			return m
		case free == nil && !m.alive(now):
			free = m
		}
	}
	if free != nil {
		*free = member{id: id, seen: now, pid: int64(os.Getpid()), home: home()}
	}
	return free
}

// bury frees the places of members whose process is known to be dead: nobody waits
// for what they had leave for. It may have gone out just before, and counts as sent
// now. // Invariant 4
func (b *budgetRecord) bury(now instant) (changed bool) {
	for i := range b.members {
		m := &b.members[i]
		if !m.alive(now) || m.home == 0 || m.home != home() || !gone(int(m.pid)) {
			continue
		}
		b.ledger.note(now.add(b.ledger.longest()), uint32(max(0, m.unsent)))
		*m, changed = member{}, true
	}
	return changed
}

// shared reports whether another member than id is alive.
func (b *budgetRecord) shared(id uint64, now instant) bool {
	for i := range b.members {
		if m := &b.members[i]; m.id != id && m.alive(now) {
			return true
		}
	}
	return false
}

// occupied returns how many requests the server may count at now, and the
// instant at which one less will; zero if that cannot be told.
func (b *budgetRecord) occupied(window time.Duration, now instant) (int, instant) {
	n, free := b.ledger.occupied(window)
	for i := range b.members {
		if m := &b.members[i]; m.alive(now) {
			n += int(m.unsent)
		}
	}
	return n, free
}

// newBudgetRecord is the budget record of a credential that nothing was asked for with yet.
func newBudgetRecord(of Budget) budgetRecord {
	return budgetRecord{ceiling: newCeiling(of.Rate, of.Reserve)}
}

// image is the memory of b. A file of it stays on the machine that wrote it, so
// that the order of bytes is no question.
func (b *budgetRecord) image() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(b)), unsafe.Sizeof(*b))
}

// recordLayout changes with what the fields of a budget record mean; their size is a part
// of it.
const recordLayout = 1<<32 | uint64(unsafe.Sizeof(budgetRecord{}))

// checksum is over all that comes after it.
func (b *budgetRecord) checksum() uint64 {
	sum := crc32.Checksum(b.image()[unsafe.Offsetof(b.stamp):], crc32.MakeTable(crc32.Castagnoli))
	return uint64(sum) | 1<<32 // which the zeros of a new file are not
}

// blank reports whether the budget record is that of a new file.
func (b *budgetRecord) blank() bool { return b.layout == 0 && b.written == 0 && b.stamp == 0 }

func (b *budgetRecord) whole() bool { return b.layout == recordLayout && b.written == b.checksum() }

// sign makes b ready to be stored.
func (b *budgetRecord) sign(now instant) {
	b.stamp, b.ahead = now, now.sub(instant(time.Now().UnixNano()))
	b.layout = recordLayout
	b.written = b.checksum()
}
