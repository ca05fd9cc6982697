package board

import (
	"context"
	"net/http"
	"net/url"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

type action struct {
	name string
	path string // below / for forms, below /api/v1/ for programs
	does string
	said string
	do   func(context.Context, Control, *http.Request) error
}

func actions() []action {
	const in = "/pipelines/{pipeline}"
	return []action{
		{"run", in + "/run", "Start a run of the pipeline.", "Run started.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Start(ctx, r.PathValue("pipeline"))
		}},
		{"pause", in + "/pause", "Pause the schedule of the pipeline until it is resumed.", "Schedule paused.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Pause(ctx, r.PathValue("pipeline"))
		}},
		{"resume", in + "/resume", "Resume the schedule of the pipeline.", "Schedule resumed.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Resume(ctx, r.PathValue("pipeline"))
		}},
		{"pause-source", "/sources/{source}/pause", "Pause the source: runs skip it until it is resumed.", "Source paused: runs skip it.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.PauseSource(ctx, r.PathValue("source"))
		}},
		{"resume-source", "/sources/{source}/resume", "Resume the source: runs include it again.", "Source resumed: runs include it again.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.ResumeSource(ctx, r.PathValue("source"))
		}},
		{"retry", in + "/streams/{stream}/retry", "Start a run of one stream of the pipeline.", "Run started.", func(ctx context.Context, c Control, r *http.Request) error {
			return c.Start(ctx, r.PathValue("pipeline"), r.PathValue("stream"))
		}},
	}
}

func (b *Board) do(a action, r *http.Request) error {
	err := a.do(r.Context(), b.Control, r)
	b.audit(r, visitorOf(r), a.name, objectOf(r), err)
	if err == nil {
		b.Log.Info("dashboard action", "action", a.name, "pipeline", r.PathValue("pipeline"), "stream", r.PathValue("stream"), "source", r.PathValue("source"), "token", visitorOf(r).Name, "from", access.From(r))
	}
	return err
}

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

func said(r *http.Request) string {
	name := r.URL.Query().Get("said")
	for _, a := range actions() {
		if a.name == name {
			return a.said
		}
	}
	return ""
}
