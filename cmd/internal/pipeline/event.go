package pipeline

import "github.com/penstock-data/penstock/extract"

// EventKind says what an Event tells.
type EventKind string

// What happens to a stream, in this order; page and commit any number of times.
const (
	EventStart  EventKind = "start"
	EventPage   EventKind = "page"
	EventCommit EventKind = "commit"
	EventEnd    EventKind = "end"
)

// Event is one step of one stream. Fields that the kind is not named for are
// zero; Total is -1 then.
type Event struct {
	Kind     EventKind
	Source   string // of a run over one of several sources, as whoever makes it says
	Stream   string
	Records  int64            // page: records on it
	Bytes    int64            // page: of bodies
	Requests int              // page: that it took
	Total    int64            // page: records the list says it has in all, -1 where it does not say
	Windows  *extract.Windows // page: how far a pass is that goes window by window; else nil
	Counts   Counts           // commit: of what the pass has committed so far
	Report   *StreamReport    // end: one for each destination
}

// tell passes e on to whoever wants to know.
func (r *run) tell(e Event) {
	if r.Progress != nil {
		r.Progress(e)
	}
}
