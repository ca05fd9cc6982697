package budget

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// After all kinds of changes, a stored record is read back unchanged. Any damage is detected.
func TestFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecord(Plan{Rate: Rate{rapid.IntRange(0, 3000).Draw(t, "limit"), time.Duration(rapid.IntRange(1, 3600).Draw(t, "window")) * time.Second}, Reserve: 0.1})
		now := instant(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).UnixNano())
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			now = now.add(rand.N(100 * time.Millisecond))
			r.advance(now)
			r.sign(rand.Uint64N(5), now)
			if g, _, why := r.reserve(now, now, now.add(rand.N(mostAhead))); why == "" {
				s := report{at: now, outcome: outcome(rand.N(5)), noted: g.noted, settles: true, counted: g.counted, epoch: r.gate.epoch}
				s.status, s.sent, s.header = 200+rand.N(350), rand.N(now), hints{left: rand.N(9) - 1, limit: Rate{Limit: rand.N(9)}}
				r.apply(s)
			}
			if rand.N(20) == 0 {
				id := rand.Uint64N(5)
				r.need(id, need{waiting: 1, second: rand.Int64N(9)}, now)
				r.lease(id, now, time.Millisecond, need{waiting: 1 + rand.N(5), second: rand.Int64N(9)})
			}
		}
		r.stamp, r.ahead = now, rand.N(time.Hour)-time.Minute
		stored := r.store(nil)
		var again record
		require.NoError(t, again.load(append(stored, 1, 2, 3)))
		if len(r.members) == 0 {
			again.members = r.members
		}
		if len(r.unleased) == 0 {
			again.unleased = r.unleased
		}
		require.Equal(t, r, again)
		require.ErrorIs(t, again.load(stored[:rand.N(len(stored))]), errDamaged)
		stored[4+rand.N(len(stored)-4)] ^= 1 << rand.N(8)
		require.ErrorIs(t, again.load(stored), errDamaged)
	})
}

// A record that another release has stored is refused.
func TestFormatOfAnotherRelease(t *testing.T) {
	r := newRecord(Plan{})
	stored := r.store(nil)
	stored[0]++
	require.ErrorIs(t, r.load(stored), errOtherVersion)
}

// FuzzFormat reads random fields with a correct checksum. The result is an error, or a record that does not change when
// it is stored and read again.
func FuzzFormat(f *testing.F) {
	now := instant(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).UnixNano())
	r := newRecord(Plan{Rate: Rate{50, time.Second}})
	r.sign(7, now)
	f.Add(r.store(nil)[headLength:])
	for range 60 {
		r.advance(now)
		r.reserve(now, now, now.add(mostAhead))
	}
	f.Add(r.store(nil)[headLength:])
	f.Fuzz(func(t *testing.T, fields []byte) {
		stored := binary.LittleEndian.AppendUint32(nil, version)
		stored = binary.LittleEndian.AppendUint32(stored, uint32(len(fields)))
		stored = binary.LittleEndian.AppendUint32(stored, checksum(fields))
		var one, two record
		if one.load(append(stored, fields...)) != nil {
			return
		}
		again := one.store(nil)
		require.NoError(t, two.load(again))
		require.Equal(t, again, two.store(nil))
	})
}
