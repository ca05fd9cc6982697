package fleet

import (
	"encoding/json"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Round is the round that units were put off into, the last of them; 0 for none.
func Round(units []state.Unit) (round int) {
	for _, u := range units {
		round = max(round, ReportOf(u).Round)
	}
	return round
}

// offPause is how soon a unit is begun again that was put off: if still nobody waits
// before it.
const offPause = 10 * time.Second

// LastRound is the round of what is never put off.
const LastRound = lastRound

// PutOff are units after an attempt that had to make room for others: what it has not
// settled waits for a while and goes on from what is committed, in a later round.
func PutOff(units []state.Unit, round int, now time.Time) []state.Unit {
	off := make([]state.Unit, len(units))
	for i, u := range units {
		off[i] = u
		if u.State.Ended() {
			continue
		}
		rep := ReportOf(u)
		rep.Status, rep.Why, rep.Round = pipeline.StatusStopped, ErrPutOff.Error(), round
		off[i].State, off[i].NotBefore = state.UnitWaiting, now.Add(offPause)
		off[i].Report, _ = json.Marshal(rep) // which was read from such a text
	}
	return off
}
