package board

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Bounds of the live updates.
const (
	maxFollowers = 256              // open at once; who comes later looks again now and then
	heartbeat    = 15 * time.Second // without it, what stands between takes the connection for dead
	writeWithin  = 10 * time.Second // a reader that takes nothing for so long is given up
	gatherFor    = 200 * time.Millisecond
)

// events follows the feed as server-sent events, until the reader leaves, the reader's token
// is gone or the daemon stops.
func (b *Board) events(w http.ResponseWriter, r *http.Request) {
	if b.followers.Add(1) > maxFollowers {
		b.followers.Add(-1)
		w.Header().Set("Retry-After", "30")
		b.problem(w, r, http.StatusServiceUnavailable, "as many visitors as possible are following already; ask again later")
		return
	}
	defer b.followers.Add(-1)
	s := stream{w: w, to: http.NewResponseController(w)}
	from, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		from = b.feed.Last()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy passes each event on at once
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

// follow sends what has happened after from, once something has, or a heartbeat.
func (b *Board) follow(r *http.Request, s *stream, from uint64) (uint64, error) {
	notes, last, lost, more := b.feed.After(from)
	switch {
	case lost:
		return last, s.send(fmt.Sprintf("id: %d\nevent: reset\ndata: {}\n\n", last))
	case notes != nil:
		if err := s.notes(from, notes); err != nil {
			return from, err
		}
		return last, b.rest(r, gatherFor)
	}
	t := time.NewTimer(heartbeat)
	defer t.Stop()
	select {
	case <-more:
		return from, nil
	case <-t.C:
		return from, s.send(": here\n\n")
	case <-r.Context().Done():
		return from, r.Context().Err()
	case <-b.closed:
		return from, io.EOF
	}
}

// rest lets notes gather before the next are sent.
func (b *Board) rest(r *http.Request, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	case <-b.closed:
		return io.EOF
	}
}

// stream is a connection that events are sent on.
type stream struct {
	w  http.ResponseWriter
	to *http.ResponseController
}

// notes sends notes, the first of which is number from + 1. Of several that say
// the same only the last is sent.
func (s *stream) notes(from uint64, notes []Note) error {
	latest := map[Note]int{}
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
		text = fmt.Appendf(text, "id: %d\nevent: change\ndata: %s\n\n", from+uint64(i)+1, data)
	}
	return s.send(string(text))
}

// send writes text, and gives a reader up that does not take it. // Invariant 15
func (s *stream) send(text string) error {
	_ = s.to.SetWriteDeadline(time.Now().Add(writeWithin)) // a recorder of tests has none
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.to.Flush()
}
