package board

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	maxFollowers = 256              // maximum of concurrent connections; a page without a connection reloads itself from time to time
	heartbeat    = 15 * time.Second // keeps proxies from closing an idle connection
	writeWithin  = 10 * time.Second // a reader that accepts no data for this long is disconnected
	gatherFor    = 200 * time.Millisecond
)

// events serves the live updates until the client disconnects, its token is removed, or the daemon stops.
func (b *Board) events(w http.ResponseWriter, r *http.Request) {
	if b.followers.Add(1) > maxFollowers {
		b.followers.Add(-1)
		w.Header().Set("Retry-After", "30")
		b.problem(w, r, http.StatusServiceUnavailable, "too many visitors follow the live updates; try again later")
		return
	}
	defer b.followers.Add(-1)
	s := stream{w: w, to: http.NewResponseController(w)}
	from, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		from = b.feed.Last()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx must not buffer the events
	w.WriteHeader(http.StatusOK)
	if s.send("retry: 5000\n\n") != nil {
		return
	}
	for b.allowed(r) {
		if from, err = b.follow(r, &s, from); err != nil {
			return
		}
	}
}

// follow sends the updates with a number above lastSeen, and returns the number of the last update. If there is no such
// update for the time of a heartbeat, follow sends an empty message. If the feed has already dropped some of these
// updates, follow sends the event "reset", and the browser loads the content of the page again.
func (b *Board) follow(r *http.Request, s *stream, lastSeen uint64) (uint64, error) {
	notes, last, lost, more := b.feed.After(lastSeen)
	switch {
	case lost:
		return last, s.send(fmt.Sprintf("id: %d\nevent: reset\ndata: {}\n\n", last))
	case notes != nil:
		if err := s.notes(lastSeen, notes); err != nil {
			return lastSeen, err
		}
		_, err := wait(r, gatherFor, nil, b.closed)
		return last, err
	}
	elapsed, err := wait(r, heartbeat, more, b.closed)
	if elapsed {
		err = s.send(": here\n\n")
	}
	return lastSeen, err
}

// wait returns when there are more updates, or when the time d has passed. In the second case, it returns true.
func wait(r *http.Request, d time.Duration, more, closed <-chan struct{}) (elapsed bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-more:
		return false, nil
	case <-t.C:
		return true, nil
	case <-r.Context().Done():
		return false, r.Context().Err()
	case <-closed:
		return false, io.EOF
	}
}

type stream struct {
	w  http.ResponseWriter
	to *http.ResponseController
}

// notes sends the updates. The first has the number lastSeen + 1. If some updates are equal, only the last of them is
// sent.
func (s *stream) notes(lastSeen uint64, notes []Update) error {
	latest := map[Update]int{}
	for i, n := range notes {
		latest[n] = i
	}
	var text []byte
	for i, n := range notes {
		if latest[n] != i {
			continue
		}
		data, err := json.Marshal(n)
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "id: %d\nevent: change\ndata: %s\n\n", lastSeen+uint64(i)+1, data)
	}
	return s.send(string(text))
}

// send sends a text. It returns an error if the reader does not accept the text in time. // Invariant 15
func (s *stream) send(text string) error {
	_ = s.to.SetWriteDeadline(time.Now().Add(writeWithin)) // tests use a recorder that has no deadlines
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.to.Flush()
}
