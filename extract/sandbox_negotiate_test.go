package extract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/schemas"
)

func TestNegotiateEveryStream(t *testing.T) {
	for name, bare := range map[string]bool{"with hints": false, "by the path alone": true} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, sandbox.Options{})
			streams, requests, most := 0, 0, 0
			for _, s := range p.selected() {
				if s.Parent != "" || s.Class == schemas.ClassFile {
					continue
				}
				if bare {
					if s.Context != "" || s.Class != schemas.ClassList && s.Class != schemas.ClassBoard {
						continue
					}
					s.Records, s.Pagination, s.Key = nil, schemas.Pagination{}, nil
					s.Stated = map[string]string{"path": "configured"}
				}
				truth, err := p.Truth(s.Name)
				require.NoError(t, err)
				c := p.client(t, s)
				conv, err := c.Negotiate(t.Context(), s)
				require.NoError(t, err, s.Name)
				streams, requests, most = streams+1, requests+conv.Requests, max(most, conv.Requests)
				got, end := readAll(t, c, conv.Apply(s))
				require.Len(t, got, len(truth), "%s: %+v", s.Name, conv)
				require.NotEmpty(t, end.Rule)
			}
			t.Logf("%d streams, %.1f requests each, %d at most", streams, float64(requests)/float64(streams), most)
			require.Less(t, float64(requests)/float64(streams), 4.0)
			require.LessOrEqual(t, most, 12)
		})
	}
}

// A first run of all streams spends at most 15 % of its requests on probes.
func TestFirstRun(t *testing.T) {
	p := newPlatform(t, sandbox.Options{})
	read := func(streams []schemas.Stream, negotiate bool) (learned []schemas.Stream, requests int) {
		before := p.Stats().Requests
		c := p.client(t, streams...)
		for _, s := range streams {
			if negotiate && s.Parent == "" && s.Class != schemas.ClassFile {
				conv, err := c.Negotiate(t.Context(), s)
				require.NoError(t, err, s.Name)
				s = conv.Apply(s)
			}
			truth, err := p.Truth(s.Name)
			require.NoError(t, err)
			got, _ := readAll(t, c, s)
			require.Len(t, got, len(truth), s.Name)
			learned = append(learned, s)
		}
		return learned, p.Stats().Requests - before
	}
	learned, first := read(p.selected(), true)
	_, second := read(learned, false)
	t.Logf("%d requests, then %d", first, second)
	require.LessOrEqual(t, float64(first-second), 0.15*float64(first))
}
