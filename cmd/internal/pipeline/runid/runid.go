// Package runid makes ids of runs and passes. Ids sort by time.
package runid

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// runAlphabet is sorted by byte, so that ids sort like their numbers.
const runAlphabet = "0123456789abcdefghijklmnopqrstuv"

// New returns a new id for a run that starts at t. Ids sort by time; ids of the same microsecond are in random
// order. An id has twelve characters, because DuckDB stores strings of up to twelve bytes inline.
func New(t time.Time) string {
	var chance [1]byte
	_, _ = rand.Read(chance[:]) // never fails
	n := uint64(t.UnixMicro())<<8 | uint64(chance[0])
	var id [12]byte
	for i := len(id) - 1; i >= 0; i-- {
		id[i] = runAlphabet[n&31]
		n >>= 5
	}
	return string(id[:])
}

// Later returns the parameter id if it sorts after the parameter last. Otherwise, for example because the clock was
// set back, Later returns a new id just after last. Destinations compare run ids to decide whether a row is older than
// a pass. // Invariant 8
func Later(id, last string) string {
	if t := Time(last); id <= last && !t.IsZero() {
		return New(t.Add(time.Microsecond))
	}
	return id
}

// OfPass returns the id of the run's nth pass. The first has the id of the run, the second "<run>#2", the tenth
// "<run>#a". Later passes have greater ids: from the 35th on, each z stands for 35 passes, so the 35th is "<run>#z0".
func OfPass(run string, n int64) string {
	if n <= 1 {
		return run
	}
	const most = 35
	return run + "#" + strings.Repeat("z", int(n/most)) + strconv.FormatInt(n%most, 36)
}

// Pass returns the number of the pass with the given id. It returns 0 if the id does not belong to the run.
func Pass(run, id string) int64 {
	base, number, later := strings.Cut(id, "#")
	if base != run || run == "" {
		return 0
	}
	if !later {
		return 1
	}
	digit := strings.TrimLeft(number, "z")
	n, err := strconv.ParseInt(digit, 36, 64)
	if err != nil {
		return 1
	}
	return 35*int64(len(number)-len(digit)) + n
}

// After returns the id of the run's next pass. The parameter ids contains the ids of earlier passes; ids of other runs
// are ignored. So another attempt at a run, perhaps in another process, continues the numbers of the previous attempt.
func After(run string, ids ...string) string {
	var last int64
	for _, id := range ids {
		last = max(last, Pass(run, id))
	}
	return OfPass(run, last+1)
}

// Time returns when the run began; zero if [New] did not make the id.
func Time(id string) time.Time {
	if len(id) != 12 {
		return time.Time{}
	}
	var n uint64
	for i := range len(id) {
		d := strings.IndexByte(runAlphabet, id[i])
		if d < 0 {
			return time.Time{}
		}
		n = n<<5 | uint64(d)
	}
	return time.UnixMicro(int64(n >> 8)).UTC()
}
