package deltas

import (
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
)

// tight reports whether the queues are too full for another chunk of events. The limit is lower while dropped events
// are read again: otherwise they could fill the queue of one stream, and that whole stream would have to be read.
func (d *Deltas) tight() bool {
	room, longest := d.pace.entities, 0
	for _, q := range d.queues {
		room -= len(q.waiting)
		longest = max(longest, len(q.waiting))
	}
	return room < d.pace.chunk || d.read < d.upTo && longest+d.pace.chunk > d.pace.entities/4
}

func (d *Deltas) failing() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]bool{}
	for name := range d.resting {
		all[name] = true
	}
	return all
}

func (d *Deltas) forget() {
	failing := d.failing()
	live := slices.DeleteFunc(slices.Clone(d.conf.Destinations), func(dest pipeline.Destination) bool { return failing[dest.Name] })
	if len(live) == 0 || len(failing) == 0 {
		return // nothing can be dropped; further events stay in the inbox
	}
	for _, q := range d.queues {
		for key, e := range q.waiting {
			if !e.due.IsZero() || e.stored || q.lacked(e, live) {
				continue
			}
			d.leaveBehind(e, failing)
			delete(q.waiting, key)
		}
	}
}

func (d *Deltas) leaveBehind(e *entity, lack map[string]bool) {
	if d.left == nil {
		d.left = &leftBehind{after: e.first - 1, lack: map[string]bool{}}
	}
	d.left.after = min(d.left.after, e.first-1)
	for name := range lack {
		d.left.lack[name] = true
	}
}

// catchUp makes Deltas read the inbox again from the first dropped event. It also drops the waiting records, whose
// events are then read again too. So no event is applied before an earlier one. // Invariant 2
func (d *Deltas) catchUp() {
	if d.left == nil || !slices.ContainsFunc(d.awake(), func(dest pipeline.Destination) bool { return d.left.lack[dest.Name] }) {
		return
	}
	for _, q := range d.queues {
		for key, e := range q.waiting {
			if !e.stored && q.lacked(e, d.conf.Destinations) {
				d.leaveBehind(e, nil)
				delete(q.waiting, key)
			}
		}
	}
	d.upTo = max(d.upTo, d.read)
	d.read, d.left = min(d.read, d.left.after), nil
}

// admitted() returns the destinations to which deltas may commit now. It leaves out destinations that lack dropped
// events. During a pass it also leaves out destinations whose overlay is full or closed.
func (d *Deltas) admitted(q *queue, overlays map[string]*overlay.Overlay, dests []pipeline.Destination) []pipeline.Destination {
	return slices.DeleteFunc(slices.Clone(dests), func(dest pipeline.Destination) bool {
		if d.left != nil && d.left.lack[dest.Name] {
			return true
		}
		l := overlays[dest.Name]
		return overlays != nil && (!l.Admits(dest.Destination) || l.Pass.Run == q.blockedBy)
	})
}
