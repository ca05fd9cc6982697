package check

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

const hintBase = "the server at base_url is not the platform's API; base_url is scheme and host, without /api or /v2"

// LocateBases returns the run's error. For each wrong base URL, it adds the position in the configuration and a
// suggestion.
func LocateBases(ctx context.Context, o *open.Opener, c *config.Config, p config.Pipeline, r pipeline.Report) error {
	src, _ := c.Source(p.From[0].Text)
	var locate func(err error) error
	locate = func(err error) error {
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			var all []error
			for _, one := range many.Unwrap() {
				all = append(all, locate(one))
			}
			return errors.Join(all...)
		}
		if e, ok := err.(*pipeline.BaseError); ok { //nolint:errorlint // only the outermost error is replaced
			return locateBase(ctx, o, c, p, src, e.Surface, e)
		}
		return err
	}
	return locate(r.Err)
}

// locateBase adds the position in the configuration to err, which was caused by a wrong base URL. If the platform
// answers at another base URL of the same host, the hint names that URL.
func locateBase(ctx context.Context, o *open.Opener, c *config.Config, p config.Pipeline, src config.Source, surface schemas.Surface, err error) error {
	at := src.Surface(surface)
	// Cause: the platform does not answer at base_url
	hint := hintBase
	if base, stream := answeringBase(ctx, o, c, p, surface, at.BaseURL); base != "" {
		// Cause: the platform answers at another path of the host
		hint = fmt.Sprintf("stream %s can be read at %s; set base_url: %s", stream, base, base)
	}
	fault := config.Fault{File: c.File, Pos: at.BaseAt, Message: fmt.Sprintf("base_url %s of source %s %s", at.BaseURL, src.Name, surface)}
	return &failure.Error{Err: fmt.Errorf("%w: %w", fault, err), Hint: hint, Code: failure.ExitUsage}
}

// answeringBase searches for the right base URL on the same origin. It requests one stream at up to maxSiblings
// other base URLs. It returns the first base URL at which the platform answers, and the name of the stream.
// Invariants 9, 10
func answeringBase(ctx context.Context, o *open.Opener, c *config.Config, p config.Pipeline, surface schemas.Surface, base string) (found, stream string) {
	s, own, ok := simplest(c, p, surface)
	if !ok {
		return "", ""
	}
	for _, candidate := range siblings(base) {
		_, err := probeStream(ctx, o, c, p, s, candidate)
		e, ok := errors.AsType[*wire.Error](err)
		switch {
		case err == nil, ok && own && e.Class == wire.Malformed && e.Status/100 == 2: // the source answers; its format is found out later
			return candidate, s.Name
		case !ok || e.Status == 0:
			return "", "" // the source does not answer, or the run was stopped
		}
	}
	return "", ""
}

// siblings returns base URLs that the user may have meant instead of base: the parent folders of base, and some
// common folders below base.
func siblings(base string) []string {
	u, err := url.Parse(base)
	if err != nil {
		return nil
	}
	var all []string
	for at := u.Path; at != "" && at != "/"; {
		at = path.Dir(at)
		up := *u
		up.Path, up.RawPath = at, ""
		if at == "/" {
			up.Path = ""
		}
		all = append(all, up.String())
	}
	for _, below := range []string{"public", "app", "api"} {
		all = append(all, u.JoinPath(below).String())
	}
	return all[:min(len(all), maxSiblings)]
}

const maxSiblings = 6
