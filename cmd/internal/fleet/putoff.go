package fleet

import (
	"encoding/json"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Round returns the highest round of the units. Each time a unit is put off, it moves to a higher round. Round 0 means
// that no unit was put off.
func Round(units []state.Unit) (round int) {
	for _, u := range units {
		round = max(round, ReportOf(u).Round)
	}
	return round
}

// offPause is the wait of a unit that was put off. Waiting units of earlier rounds still go first.
const offPause = 10 * time.Second

// LastRound is the round whose units are never put off.
const LastRound = lastRound

// PutOff returns units after an attempt that was put off. Units that have not ended wait for offPause,
// and then continue from the last commit, in the given round.
func PutOff(units []state.Unit, round int, now time.Time) []state.Unit {
	off := make([]state.Unit, len(units))
	for i, u := range units {
		off[i] = u
		if u.State.Ended() {
			continue
		}
		rep := ReportOf(u)
		rep.Status, rep.Reason, rep.Round = pipeline.StatusStopped, ErrPutOff.Error(), round
		off[i].State, off[i].NotBefore = state.UnitWaiting, now.Add(offPause)
		off[i].Report, _ = json.Marshal(rep) // cannot fail: rep was read from JSON
	}
	return off
}
