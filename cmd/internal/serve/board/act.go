package board

import (
	"context"
	"net/http"
	"net/url"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// action is what a visitor may have done, by a form or by the API.
type action struct {
	name string
	path string // below / for forms, below /api/v1/ for programs
	does string
	said string // to the visitor, once it is noted
	do   func(context.Context, Control, *http.Request) error
}

// actions is what there is to be done.
func actions() []action {
	const in = "/pipelines/{pipeline}"
	return []action{
		{"run", in + "/run", "Has the pipeline run now.", "Run started.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Start(ctx, r.PathValue("pipeline"))
		}},
		{"pause", in + "/pause", "Keeps the pipeline's schedule from running it, until it is resumed.", "Its schedule is paused.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Pause(ctx, r.PathValue("pipeline"))
		}},
		{"resume", in + "/resume", "Lets the pipeline's schedule run it again.", "Its schedule is on again.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Resume(ctx, r.PathValue("pipeline"))
		}},
		{"pause-source", "/sources/{source}/pause", "Has runs leave the source out, until it is resumed.", "It is paused: runs leave it out.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.PauseSource(ctx, r.PathValue("source"))
		}},
		{"resume-source", "/sources/{source}/resume", "Has runs take the source up again.", "Runs take it up again.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.ResumeSource(ctx, r.PathValue("source"))
		}},
		{"retry", in + "/streams/{stream}/retry", "Has one stream of the pipeline run now.", "Run started.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Start(ctx, r.PathValue("pipeline"), r.PathValue("stream"))
		}},
	}
}

// do has a done.
func (b *Board) do(a action, r *http.Request) error {
	err := a.do(r.Context(), b.Control, r)
	b.audit(r, visitorOf(r), a.name, objectOf(r), err)
	if err == nil {
		b.Log.Info("action at the dashboard", "action", a.name, "pipeline", r.PathValue("pipeline"), "stream", r.PathValue("stream"), "source", r.PathValue("source"), "token", visitorOf(r).Name, "from", access.From(r))
	}
	return err
}

// act does what a form asks for, and leads back to the page it is on.
func (b *Board) act(a action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := b.do(a, r); err != nil {
			b.fail(w, r, err)
			return
		}
		back, _ := url.Parse(local(r.PostFormValue("back")))
		v := back.Query()
		v.Set("said", a.name)
		back.RawQuery = v.Encode()
		http.Redirect(w, r, back.String(), http.StatusSeeOther)
	})
}

// said is what a page tells that is come back to after an action.
func said(r *http.Request) string {
	name := r.URL.Query().Get("said")
	for _, a := range actions() {
		if a.name == name {
			return a.said
		}
	}
	return ""
}
