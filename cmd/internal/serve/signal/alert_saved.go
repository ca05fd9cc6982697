package signal

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state"
)

const savedName = "alerts.json"

type saved struct {
	Active []savedTopic            `json:"active"`
	Sent   map[string][]savedTopic `json:"sent"` // by target
}

type savedTopic struct {
	topic
	Troubles troubles  `json:"troubles,omitempty"`
	Sent     *lastSent `json:"sent,omitempty"`
}

func (a *Alerts) load(ctx context.Context) error {
	text, err := a.notes.Note(ctx, savedName)
	if err != nil || text == nil {
		return err
	}
	a.kept = text
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		a.log.Warn("start without stored alerts: cannot parse them", "note", savedName, "error", err)
		return nil
	}
	for _, m := range s.Active {
		if len(m.Troubles) > 0 {
			a.active[m.topic] = m.Troubles
		}
		if m.topic == ofDashboard && len(m.Troubles) > 0 {
			a.wrongTokens = &refusals{total: refusedMany, last: time.Now()}
		}
		if source, ok := strings.CutPrefix(m.Subject, "source "); ok && m.Kind == Signature {
			a.refusals[source] = &refusals{total: refusedMany, last: time.Now(), reasons: map[string]int{}}
		}
	}
	for id, topics := range s.Sent {
		t := &target{sent: map[topic]lastSent{}}
		for _, m := range topics {
			if m.Sent != nil {
				t.sent[m.topic] = *m.Sent
			}
		}
		a.targets[id] = t
	}
	return nil
}

// save stores the alerts, if they have changed. If that fails, the next process may repeat a message.
func (a *Alerts) save(ctx context.Context) {
	a.mu.Lock()
	if !a.unsaved {
		a.mu.Unlock()
		return
	}
	s := saved{Sent: map[string][]savedTopic{}}
	for tp, ts := range a.active {
		s.Active = append(s.Active, savedTopic{topic: tp, Troubles: maps.Clone(ts)})
	}
	for id, t := range a.targets {
		for tp, last := range t.sent {
			s.Sent[id] = append(s.Sent[id], savedTopic{topic: tp, Sent: &last})
		}
	}
	a.unsaved = false
	a.mu.Unlock()
	text, err := json.Marshal(s)
	if err == nil {
		err = a.keep(context.WithoutCancel(ctx), text)
	}
	if err != nil {
		a.log.Warn("store alerts", "error", err)
	}
}

// keep writes the note that has the stored alerts. If several daemons share a state, the last write counts.
func (a *Alerts) keep(ctx context.Context, text []byte) error {
	err := a.notes.SetNote(ctx, savedName, a.kept, text)
	if errors.Is(err, state.ErrMoved) {
		now, rerr := a.notes.Note(ctx, savedName)
		if rerr != nil {
			return rerr
		}
		err = a.notes.SetNote(ctx, savedName, now, text)
	}
	if err == nil {
		a.kept = text
	}
	return err
}
