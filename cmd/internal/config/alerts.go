package config

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

// Alerts says who is notified when something needs attention, and of what.
type Alerts struct {
	At     Pos
	To     []wire.Secret // shoutrrr URLs; their form is checked elsewhere
	ToAt   []Pos         // the position of each URL in the file
	On     []string      // the kinds of alerts to send, from AlertKinds
	Digest time.Duration // how long an alert waits for others to join its message; 0: the default. The same for all pipelines
}

// AlertKinds returns the kinds of alerts. Without the key `on`, all kinds are sent.
func AlertKinds() []string {
	return []string{"failed", "late", "held", "drift", "signature", "contradicted", "access", "grant"}
}

func (r *reader) alerts(n ast.Node) Alerts {
	a := Alerts{At: posOf(n), On: AlertKinds()}
	f := r.alertFields(&a, "alerts")
	f["digest"] = func(n ast.Node) { a.Digest = r.digestWindow(n, "alerts digest") }
	r.mapping(n, "alerts", f)
	return a
}

// pipelineAlerts reads the alerts of a pipeline. A key that the pipeline does not set has its value from the alerts of
// the file.
func (r *reader) pipelineAlerts(n ast.Node, what string, general Alerts) *Alerts {
	a := general
	a.At = posOf(n)
	if a.On == nil {
		a.On = AlertKinds()
	}
	if r.mapping(n, what, r.alertFields(&a, what)) && len(a.To) == 0 && len(a.On) > 0 {
		r.fault(a.At, "%s has no recipients: set `to` here, or in `alerts` of the file", what)
	}
	return &a
}

func (r *reader) alertFields(a *Alerts, what string) fields {
	return fields{
		"to": func(n ast.Node) { a.To, a.ToAt = r.targets(n, what+" to") },
		"on": func(n ast.Node) { a.On = r.kinds(n, what+" on") },
	}
}

func (r *reader) targets(n ast.Node, what string) (all []wire.Secret, at []Pos) {
	for _, v := range r.list(n, what) {
		if s := r.secret(v, what); s != "" {
			all, at = append(all, s), append(at, posOf(v))
		}
	}
	return all, at
}

func (r *reader) kinds(n ast.Node, what string) []string {
	var all []string
	for _, v := range r.list(n, what) {
		k := r.choice(v, what, AlertKinds()...)
		if k != "" && !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

func (r *reader) digestWindow(n ast.Node, what string) time.Duration {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s.value)
	if err != nil || d <= 0 || d > 24*time.Hour {
		r.fault(s.at, "%s %q: want a duration of up to a day, such as 30s or 5m", what, s.raw)
		return 0
	}
	return d
}
