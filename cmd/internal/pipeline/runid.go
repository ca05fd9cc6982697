package pipeline

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// runAlphabet is in the order of its bytes, so that ids sort as their numbers.
const runAlphabet = "0123456789abcdefghijklmnopqrstuv"

// NewRunID makes the id of a run that starts at t: twelve characters which
// sort by time, to the microsecond, and then by chance. Twelve bytes are what
// DuckDB keeps inside a string's own cell.
func NewRunID(t time.Time) string {
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

// laterRunID is id, or the next one after that of the last run if the clock has
// been set back since: destinations tell by a row's run whether it is older
// than a pass. // Invariant 8
func laterRunID(id, last string) string {
	if t := runTime(last); id <= last && !t.IsZero() {
		return NewRunID(t.Add(time.Microsecond))
	}
	return id
}

// passID is the id of the nth pass over a stream in a run: #2 for the second, #a
// for the tenth, so that later ones have greater ids.
func passID(run string, n int64) string {
	if n <= 1 {
		return run
	}
	return run + "#" + strconv.FormatInt(n, 36)
}

// runTime is the time in the id of a run; zero for what is none.
func runTime(id string) time.Time {
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
