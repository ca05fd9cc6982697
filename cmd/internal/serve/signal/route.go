package signal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// Routing says which alerts go to which targets.
type Routing struct {
	Route                              // the route of sources, and of pipelines that have no route
	Pipelines map[string]PipelineRoute // by the name of the pipeline
	Sources   []string
	Digest    time.Duration // 0: DefaultDigest
}

// Route has targets, and the kinds of alerts that they get.
type Route struct {
	To []wire.Secret // shoutrrr URLs
	On []Kind
}

// PipelineRoute has the streams of a pipeline, and its route.
type PipelineRoute struct {
	Streams []string
	Route   *Route // nil: the route of the Routing
}

func (r Routing) digest() time.Duration { return cmp.Or(r.Digest, DefaultDigest) }

func (r Routing) of(tp topic) (Route, bool) {
	if name, ok := strings.CutPrefix(tp.Subject, "pipeline "); ok {
		p, known := r.Pipelines[name]
		if known && p.Route != nil {
			return *p.Route, true
		}
		return r.Route, known
	}
	if tp.Subject == ofDashboard.Subject {
		return r.Route, true
	}
	name, _ := strings.CutPrefix(tp.Subject, "source ")
	return r.Route, slices.Contains(r.Sources, name)
}

func (r Routing) reaches(tp topic, id string) bool {
	route, ok := r.of(tp)
	return ok && slices.Contains(route.On, tp.Kind) &&
		slices.ContainsFunc(route.To, func(u wire.Secret) bool { return targetID(u) == id })
}

// targetID returns a name of a target that may be logged and stored. The URL is a secret, so the name has only 16
// bits of its hash: too few to find the URL by trying.
func targetID(u wire.Secret) string {
	sum := sha256.Sum256([]byte(u.Reveal()))
	return Service(u) + "-" + hex.EncodeToString(sum[:2])
}

// Route replaces the routing. It drops the targets that the new routing does not have. It also drops alerts about
// pipelines, streams and sources that the new routing does not have.
func (a *Alerts) Route(r Routing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.routing = r
	before := a.targets
	a.targets = map[string]*target{}
	add := func(to []wire.Secret) {
		for _, u := range to {
			id := targetID(u)
			t := before[id]
			if t == nil {
				t = &target{sent: map[topic]lastSent{}}
			}
			t.url = u
			a.targets[id] = t
		}
	}
	add(r.To)
	for _, p := range r.Pipelines {
		if p.Route != nil {
			add(p.Route.To)
		}
	}
	a.prune()
	a.changed()
}

func (a *Alerts) prune() {
	for tp, ts := range a.active {
		if _, known := a.routing.of(tp); !known {
			delete(a.active, tp)
			continue
		}
		name, ok := strings.CutPrefix(tp.Subject, "pipeline ")
		if !ok {
			continue
		}
		for item := range ts {
			stream, _, _ := strings.Cut(item, " ")
			if item != "" && item != itemDeltas && !slices.Contains(a.routing.Pipelines[name].Streams, stream) {
				delete(ts, item)
			}
		}
		a.settle(tp)
	}
	for _, t := range a.targets {
		for tp := range t.sent {
			if _, known := a.routing.of(tp); !known {
				delete(t.sent, tp)
			}
		}
	}
}
