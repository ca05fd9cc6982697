package wire

import (
	"hash/crc32"
	"os"
	"time"
	"unsafe"
)

// instant is a time on the budget record's clock, in nanoseconds. Only differences matter.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }
func (i instant) sub(o instant) time.Duration { return time.Duration(i - o) }
func (i instant) before(o instant) bool       { return i < o }
func (i instant) second() int64               { return int64(i) / int64(time.Second) }

// budgetRecord is all that is known about a credential's requests and limit. Processes that share the
// credential share the record. It contains no pointers, so that its memory can be written to a file as is.
type budgetRecord struct {
	layout  uint64 // of this struct: records of other releases are not read
	written uint64 // checksum of the fields below

	stamp instant       // time of the last change
	ahead time.Duration // how far the record's clock is ahead of the machine's

	window  requestWindow
	limit   limitEstimate
	gate    breaker
	next    instant // when the pace allows the next request
	sent    uint64
	refused uint64
	members [mostMembers]member
}

// member is a process, or a governor in one, that shares the record.
type member struct {
	id           uint64
	seen         instant
	unsent       int64 // requests with a slot that are not sent yet
	pid          int64 // of its process
	pidNamespace int64 // process-id namespace; 0: unknown
}

const (
	mostMembers = 32

	// memberLease is how long a member counts as alive without a sign of life. Opening a connection takes less
	// time. So a member without a sign of life for longer is dead or suspended. A suspended member drops its slots
	// when it resumes.
	memberLease = 30 * time.Second
)

// alive reports whether m may still send its unsent requests.
func (m *member) alive(now instant) bool { return m.id != 0 && now.sub(m.seen) < memberLease }

// member returns the entry of a member, creating it if needed, or nil if the record is full.
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
		*free = member{id: id, seen: now, pid: int64(os.Getpid()), pidNamespace: pidNamespace()}
	}
	return free
}

// removeDead removes members whose process has died, so that no other process waits for their unsent requests. The
// process may have sent these requests just before it died, so they count as sent now. // Invariant 4
func (b *budgetRecord) removeDead(now instant) (changed bool) {
	for i := range b.members {
		m := &b.members[i]
		if !m.alive(now) || m.pidNamespace == 0 || m.pidNamespace != pidNamespace() || !processGone(int(m.pid)) {
			continue
		}
		b.window.note(now.add(b.window.longest()), uint32(max(0, m.unsent)))
		*m, changed = member{}, true
	}
	return changed
}

// shared reports whether a member other than id is alive.
func (b *budgetRecord) shared(id uint64, now instant) bool {
	for i := range b.members {
		if m := &b.members[i]; m.id != id && m.alive(now) {
			return true
		}
	}
	return false
}

// occupied returns how many requests the server may count at the given instant, and the instant at which the number
// will fall. That instant is zero if unknown.
func (b *budgetRecord) occupied(window time.Duration, now instant) (int, instant) {
	n, free := b.window.occupied(window)
	for i := range b.members {
		if m := &b.members[i]; m.alive(now) {
			n += int(m.unsent)
		}
	}
	return n, free
}

// newBudgetRecord returns the record of a credential without requests.
func newBudgetRecord(plan Budget) budgetRecord {
	return budgetRecord{limit: newLimitEstimate(plan.Rate, plan.Reserve)}
}

// image returns b's memory. The file stays on the machine that wrote it, so the byte order does not matter.
func (b *budgetRecord) image() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(b)), unsafe.Sizeof(*b))
}

// recordLayout identifies the layout and meaning of the record's fields. It includes their size.
const recordLayout = 1<<32 | uint64(unsafe.Sizeof(budgetRecord{}))

// checksum covers all fields from stamp on.
func (b *budgetRecord) checksum() uint64 {
	sum := crc32.Checksum(b.image()[unsafe.Offsetof(b.stamp):], crc32.MakeTable(crc32.Castagnoli))
	return uint64(sum) | 1<<32 // never zero, unlike a new file
}

// blank reports whether the file has never been written.
func (b *budgetRecord) blank() bool { return b.layout == 0 && b.written == 0 && b.stamp == 0 }

func (b *budgetRecord) whole() bool { return b.layout == recordLayout && b.written == b.checksum() }

// sign prepares b for storing.
func (b *budgetRecord) sign(now instant) {
	b.stamp, b.ahead = now, now.sub(instant(time.Now().UnixNano()))
	b.layout = recordLayout
	b.written = b.checksum()
}
