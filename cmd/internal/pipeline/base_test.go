package pipeline

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// If several paths of a surface are missing, the base URL is reported as wrong. One missing path is not enough, even
// if several streams use it.
func TestBaseError(t *testing.T) {
	missing := func(path string) error {
		return fmt.Errorf("page 1: %w", &wire.Error{Class: wire.Missing, Status: http.StatusNotFound, Path: path})
	}
	a, b := schemas.Stream{Name: "crm.a"}, schemas.Stream{Name: "crm.b"}
	for name, tt := range map[string]struct {
		saw   func(r *run)
		wrong bool
	}{
		"all paths":               {func(r *run) { r.gateOf(a).saw(a, missing("/a")); r.gateOf(b).saw(b, missing("/b")) }, true},
		"one path":                {func(r *run) { r.gateOf(a).saw(a, missing("/a")) }, false},
		"one path of two streams": {func(r *run) { r.gateOf(a).saw(a, missing("/a")); r.gateOf(b).saw(b, missing("/a")) }, false},
		"two paths, but one stream returned a page": {func(r *run) {
			r.gateOf(a).saw(a, missing("/a"))
			r.gateOf(b).saw(b, missing("/b"))
			r.gateOf(b).answered(b)
		}, false},
		"two paths, and a refusal for a third path": {func(r *run) {
			r.gateOf(a).saw(a, missing("/a"))
			r.gateOf(b).saw(b, missing("/b"))
			r.gateOf(b).saw(b, &wire.Error{Class: wire.NotEntitled, Status: http.StatusForbidden, Path: "/c"})
		}, false},
		"two paths, one of another origin": {func(r *run) {
			r.OwnOrigin = map[string]bool{"crm.b": true}
			r.gateOf(a).saw(a, missing("/a"))
			r.gateOf(b).saw(b, missing("/b"))
			r.gateOf(b).answered(b)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{gates: newGates([]schemas.Stream{a, b}, nil)}
			tt.saw(r)
			rep := Report{Err: errors.Join(r.gateErrors(), errors.New("end run"))}
			rep.summarise()
			if !tt.wrong {
				require.Empty(t, rep.BaseErrors())
				require.Equal(t, exitFailed, rep.ExitCode())
				return
			}
			require.Len(t, rep.BaseErrors(), 1)
			require.Equal(t, []string{"crm.a", "crm.b"}, rep.BaseErrors()[0].Streams)
			require.Equal(t, exitUsage, rep.ExitCode())
		})
	}
}
