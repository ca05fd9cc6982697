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
