package config

import (
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// Alerts configures alerts: their receivers, and the kinds that each receiver gets.
type Alerts struct {
	At     Pos
	To     []wire.Secret // shoutrrr URLs; their form is checked elsewhere
	ToAt   []Pos         // the position in the file of each URL in To
	On     []string      // the kinds of alerts to send, from AlertKinds
	Digest time.Duration // how long an alert waits so that other alerts can be sent in the same message; 0: the default; pipelines cannot set it
}

// AlertKinds returns the kinds of alerts. Without the key `on`, all kinds are sent.
func AlertKinds() []string {
	return []string{"failed", "late", "held", "drift", "check", "signature", "contradicted", "access", "grant"}
}

func readAlerts(v value) Alerts {
	a := Alerts{At: v.pos(), On: AlertKinds()}
	f := a.fields()
	f["digest"] = duration(&a.Digest, 1, 24*time.Hour, "a duration of up to a day, such as 30s or 5m")
	v.mapping(f)
	return a
}

// readPipelineAlerts reads the alerts of a pipeline. For a key that the pipeline does not set, the value in the alerts
// of the whole file applies.
func readPipelineAlerts(v value, general Alerts) *Alerts {
	a := general
	a.At = v.pos()
	if a.On == nil {
		a.On = AlertKinds()
	}
	if v.mapping(a.fields()) && len(a.To) == 0 && len(a.On) > 0 {
		v.fault(a.At, "%s has no recipients: set `to` here, or in `alerts` of the file", v.what)
	}
	return &a
}

func (a *Alerts) fields() fields {
	return fields{
		"to": func(v value) {
			a.To, a.ToAt = nil, nil
			for _, item := range v.list() {
				if s := secret(item); s != "" {
					a.To, a.ToAt = append(a.To, s), append(a.ToAt, item.pos())
				}
			}
		},
		"on": func(v value) {
			a.On = nil
			for _, item := range v.list() {
				if k := item.choice(AlertKinds()...); k != "" && !slices.Contains(a.On, k) {
					a.On = append(a.On, k)
				}
			}
		},
	}
}
