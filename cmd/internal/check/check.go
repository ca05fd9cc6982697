// Package check checks what a configuration describes: credentials, connections, and rights in destinations. It changes
// no table.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/plainerror"
	"github.com/penstock-data/penstock/state/postgres"
)

// Finding is the outcome of one check.
type Finding struct {
	Part   string `json:"part"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	Code   int    `json:"-"` // exit code if not OK

	cause error // nil if OK
}

// Once removes a finding if an earlier finding reports the same fault of the state database.
func Once(findings []Finding) []Finding {
	reported := map[error]bool{}
	return slices.DeleteFunc(findings, func(f Finding) bool {
		for _, cause := range []error{postgres.ErrUnmigrated, state.ErrNewer} {
			if errors.Is(f.cause, cause) {
				again := reported[cause]
				reported[cause] = true
				return again
			}
		}
		return false
	})
}

// Failed returns the finding of a failed check.
func Failed(ctx context.Context, part string, err error, hint string) Finding {
	if f, ok := errors.AsType[*failure.Error](err); ok && hint == "" {
		hint = f.Hint
	}
	return Finding{Part: part, Detail: plainerror.Text(err.Error()), Hint: hint, cause: err, Code: failure.CodeOf(ctx, err)}
}

// Pipeline reports what a pipeline would read, or why it cannot run.
func Pipeline(o *open.Opener, c *config.Config, p config.Pipeline, now time.Time) Finding {
	part := "pipeline " + p.Name
	streams, err := c.Select(p, nil)
	if err == nil {
		err = o.Checkable(c, p, streams)
	}
	if err != nil {
		return Failed(context.Background(), part, err, "")
	}
	return Finding{Part: part, OK: true, Detail: render.Plural(len(streams), "stream") + upcoming(p.Schedule, now)}
}

// upcoming() returns the next times at which `serve` runs a pipeline, as text for a finding.
func upcoming(s *config.Schedule, now time.Time) string {
	if s == nil {
		return ""
	}
	var times []string
	for _, at := range s.Slots.Upcoming(now, 5) {
		times = append(times, at.Format("2006-01-02 15:04:05 MST"))
	}
	return fmt.Sprintf("; %s: %s", s.Slots, strings.Join(times, ", "))
}

// Source checks the stored sign-ins of a source, and makes one cheap read per surface.
func Source(ctx context.Context, o *open.Opener, c *config.Config, p config.Pipeline, from config.Ref) []Finding {
	src, _ := c.Source(from.Text)
	p.From = []config.Ref{from}
	findings, broken := checkSignIns(ctx, o, c, src.Name)
	for _, surface := range []schemas.Surface{schemas.SurfaceV2, schemas.SurfaceApp} {
		cfg := src.Surface(surface)
		if cfg == nil || broken[surface] {
			continue
		}
		part := fmt.Sprintf("source %s %s", src.Name, surface)
		probe, own, ok := simplest(c, p, surface)
		if !ok {
			continue
		}
		detail, err := probeStream(ctx, o, c, p, probe, "")
		if e, ok := errors.AsType[*wire.Error](err); ok && own && e.Class == wire.Malformed {
			detail, err = fmt.Sprintf("%s answers; `penstock discover %s` finds out how to read it", probe.Name, probe.Name), nil
		}
		if e, ok := errors.AsType[*wire.Error](err); ok && !own && e.Class == wire.Missing {
			findings = append(findings, Failed(ctx, part, locateBase(ctx, o, c, p, src, surface, err), ""))
			continue
		}
		if err != nil {
			hint := surfaceRemedy(err, probe.Name)
			if own {
				hint = render.Remedy(err, probe.Name)
			}
			findings = append(findings, Failed(ctx, part, fmt.Errorf("%s: %w", cfg.BaseURL, err), hint))
			continue
		}
		findings = append(findings, Finding{Part: part, OK: true, Detail: cfg.BaseURL + ": " + detail})
	}
	return findings
}

// checkSignIns checks the stored sign-ins of a source. It also returns the surfaces whose credential does not work, so
// that the caller sends no test request to them.
func checkSignIns(ctx context.Context, o *open.Opener, c *config.Config, source string) (all []Finding, broken map[schemas.Surface]bool) {
	broken = map[schemas.Surface]bool{}
	some, err := o.SignIns(c, source)
	if err != nil {
		all = append(all, Failed(ctx, "source "+source, err, ""))
		broken[schemas.SurfaceV2], broken[schemas.SurfaceApp] = true, true
	}
	for _, s := range some {
		part := fmt.Sprintf("credential %s %s", s.Name, s.Surface)
		login := fmt.Sprintf("`penstock login %s %s`", s.Name, s.Surface)
		st, err := s.Credential.(wire.Keeper).State()
		switch {
		case err != nil:
			all = append(all, Failed(ctx, part, err, ""))
		case st.Trouble != "":
			// Cause: the stored sign-in has ended
			all = append(all, Failed(ctx, part, errors.New(render.SignIn(st)), login+" signs in again"))
		case len(st.MissingScopes) > 0:
			// Cause: the sign-in lacks scopes that are configured
			all = append(all, Failed(ctx, part, errors.New(render.SignIn(st)), login+" requests the missing scopes; streams that need them cannot be read"))
			continue
		default:
			all = append(all, Finding{Part: part, OK: true, Detail: st.Account + ": " + render.SignIn(st)})
			continue
		}
		broken[s.Surface] = true
	}
	return all, broken
}

// simplest() chooses the stream for a test request to a surface: normally the cheapest stream of the catalogue. If the
// user has set the path of every stream that the pipeline reads from the surface, the server perhaps lacks the
// catalogue's paths. In this case, simplest() chooses the cheapest of these streams, and the result `own` is true. The
// result `ok` is false if no stream is suitable.
func simplest(c *config.Config, p config.Pipeline, surface schemas.Surface) (s config.Stream, own, ok bool) {
	all := c.Streams
	carried, err := c.Select(p, nil)
	if err == nil {
		carried = slices.DeleteFunc(carried, func(s config.Stream) bool { return s.Surface != surface || s.Origin != "" })
		own = len(carried) > 0 && !slices.ContainsFunc(carried, func(s config.Stream) bool { return s.Stated["path"] == "" })
	}
	if own {
		all = carried
	}
	s, ok = cheapest(all, surface)
	return s, own, ok
}

// cheapest() returns the stream of a surface that costs the least: auth.user, or else a single object, a
// lookup list, or another list without parameters.
func cheapest(all []config.Stream, surface schemas.Surface) (config.Stream, bool) {
	able := slices.DeleteFunc(slices.Clone(all), func(s config.Stream) bool {
		return !s.Readable() || s.Surface != surface || s.Method != "GET" || s.Parent != "" || len(s.Params) > 0 ||
			s.Auth != schemas.AuthBearer || s.Origin != "" || s.Class == schemas.ClassFile
	})
	if len(able) == 0 {
		return config.Stream{}, false
	}
	rank := func(s config.Stream) int {
		switch {
		case s.Name == "auth.user":
			return 0
		case s.Class == schemas.ClassSingleton:
			return 1
		case s.Class == schemas.ClassLookup:
			return 2
		}
		return 3
	}
	return slices.MinFunc(able, func(a, b config.Stream) int { return cmp.Compare(rank(a), rank(b)) }), true
}

// probeStream reads the first page of a stream with short timeouts and at most two attempts. It returns a sentence
// about the result for the user. If base is not "", it replaces the configured base URL.
func probeStream(ctx context.Context, o *open.Opener, c *config.Config, p config.Pipeline, s config.Stream, base string) (string, error) {
	source, err := o.Source(c, p, []config.Stream{s}, func(w *wire.Options) {
		w.BaseURL = cmp.Or(base, w.BaseURL)
		w.MaxAttempts, w.MaxWait = 2, 5*time.Second
		w.Timeouts = wire.Timeouts{Connect: 5 * time.Second, Handshake: 5 * time.Second, Header: 20 * time.Second, Total: 30 * time.Second}
	})
	if err != nil {
		return "", err
	}
	defer source.Close()
	start := time.Now()
	for _, err := range source.Client.Pages(ctx, s.Stream, "") {
		if err != nil {
			return "", err
		}
		break
	}
	detail := fmt.Sprintf("%s answered in %s", s.Name, render.Brief(time.Since(start)))
	if l := source.Limit(); l != "" {
		detail += ", limit " + l
	}
	return detail, nil
}

// surfaceRemedy returns the hint for a surface whose test request failed. If the response cannot be parsed, the hint
// says that base_url is not the address of the platform.
func surfaceRemedy(err error, stream string) string {
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Class == wire.Malformed {
		// Cause: the answer of the test request is not in the expected format
		return hintBase
	}
	return render.Remedy(err, stream)
}

// State checks the state database. It does not check a state folder: a run reports the faults of a folder.
func State(ctx context.Context, o *open.Opener, c *config.Config) []Finding {
	db, ok := o.State(c).(*postgres.Store)
	if !ok {
		return nil
	}
	h, err := db.Health(ctx)
	if err == nil {
		err = open.InspectQueue(ctx, db)
	}
	switch {
	case errors.Is(err, postgres.ErrUnmigrated), errors.Is(err, state.ErrNewer):
		return []Finding{Failed(ctx, "state", open.StateTrouble(err), "")}
	case err != nil:
		// Cause: the state database does not answer
		return []Finding{Failed(ctx, "state", err, "`state:` in the configuration sets the database")}
	case len(h.MissingRights) > 0:
		return []Finding{Failed(ctx, "state", failure.Usage("ask the owner of the schema to run: GRANT USAGE ON SCHEMA "+render.SQLName(h.Schema)+" TO …; GRANT "+h.MissingRights[0]+" TO …; and so on",
			"the role lacks %s", strings.Join(h.MissingRights, ", ")), "")}
	}
	f := Finding{Part: "state", OK: true, Detail: fmt.Sprintf("%s, schema %s, version %d, Postgres %s", open.StateHost(c), h.Schema, h.Version, h.Server)}
	if db.Vault().Check() != nil {
		f.Detail += "; without a key it cannot store tokens"
		// Cause: the state database has no key, so it cannot store tokens
		f.Hint = open.HintKey
	}
	return append([]Finding{f}, checkClock(h.Ahead)...)
}

// clockSlack is the largest clock difference that is not reported.
const clockSlack = 5 * time.Second

// checkClock reports a large difference between this machine's clock and that of the state database. The check still
// succeeds, because runs use the clock of the database.
func checkClock(ahead time.Duration) []Finding {
	if ahead.Abs() <= clockSlack {
		return nil
	}
	way := "behind"
	if ahead < 0 {
		way = "ahead of"
	}
	return []Finding{{
		Part: "clock", OK: true, Detail: fmt.Sprintf("this machine's clock is %s %s the clock of the state database; schedules, leases and rows use the database's clock", render.Brief(ahead.Abs()), way),
		Hint: "set this machine's clock, for instance with NTP: TLS certificates and requests to object stores still depend on it",
	}}
}
