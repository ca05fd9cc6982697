package deltas

import "time"

type applyRate struct {
	quiet    time.Duration   // wait after a stream's last event, so that one request serves several events of a record
	late     time.Duration   // maximum wait after the first waiting event
	again    []time.Duration // waits before a record is requested again
	busy     time.Duration   // wait before the next attempt while a pass over the stream is running
	lockWait time.Duration   // maximum wait for a commit of the running pass
	patience time.Duration   // maximum time for an operation of a destination
	rest     time.Duration   // wait after a failure that concerns more than one record; doubled after each further failure
	refresh  time.Duration   // minimum time between two whole readings of a stream because of events
	trust    time.Duration   // how long stored conventions, and the result of the test of an endpoint for single records, are used before they are renewed

	chunk     int // number of events per read of the inbox, and per write to the table of events
	slice     int // maximum number of records in one commit
	entities  int // maximum number of waiting records, over all streams // Invariant 6
	listAbove int // up to this number, the waiting records of a stream are requested one by one; above it, the list may be read instead
}

// defaultPace is the pace of a run and of `penstock serve`. After a change, a source may return the old record for some
// seconds, so a record that disagrees with its event is requested again 3 and 12 seconds later.
var defaultPace = applyRate{
	quiet: 2 * time.Second, late: 10 * time.Second, again: []time.Duration{3 * time.Second, 12 * time.Second},
	busy: time.Second, lockWait: 5 * time.Second, patience: 5 * time.Minute, rest: 5 * time.Second, refresh: time.Minute, trust: 15 * time.Minute,
	chunk: 5_000, slice: 200, entities: 100_000, listAbove: 200,
}

// maxRecordTries is the number of times that a record is requested because of one event. After the last failure
// the event is given up. // Invariant 15
const maxRecordTries = 3
