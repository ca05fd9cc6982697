package pipeline

import "github.com/penstock-data/penstock/extract"

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events of a stream. The events occur in this order. The kinds page and commit may occur any number of
// times.
const (
	EventStart  EventKind = "start"
	EventPage   EventKind = "page"
	EventCommit EventKind = "commit"
	EventEnd    EventKind = "end"
)

// Event is one step of one stream. The comment of a field names the kind of event that sets it. In events of other
// kinds the field is zero, and Total is -1.
type Event struct {
	Kind     EventKind
	Source   string // the source, if the pipeline has several; set by the caller
	Stream   string
	Records  int64            // page: number of records
	Bytes    int64            // page: bytes of the bodies
	Requests int              // page: number of requests
	Total    int64            // page: the list's stated total, -1 if none
	Windows  *extract.Windows // page: progress of a pass over time windows; else nil
	Counts   Counts           // commit: counts of the committed part of the pass
	Report   *StreamReport    // end: one for each destination
}
