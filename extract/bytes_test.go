package extract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the envelope has two members of the same name with different arrays, a reader that takes only one of them would
// lose records. So the page is an error. Two equal arrays are no problem.
func TestDuplicateMemberInEnvelope(t *testing.T) {
	for body, want := range map[string]string{
		`{"data":[],"total":2,"data":[{"id":1},{"id":2}]}`:                  `duplicate member "data"`,
		`{"result":{"items":[{"id":1}],"items":[{"id":2}]}}`:                `duplicate member "items"`,
		`{"data":[{"id":1},{"id":2}],"total":2,"data":[{"id":1},{"id":2}]}`: "",
		`{"v":1,"data":[{"id":1,"a":1,"a":2},{"id":2}],"total":2,"v":2}`:    "",
	} {
		t.Run(body, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
			_, err := f.Negotiate(t.Context(), s)
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestPagesWithBrokenValues(t *testing.T) {
	for name, first := range map[string]string{
		"a sound record":           `{"id":1,"a":"x"}`,
		"bytes that are not UTF-8": "{\"id\":1,\"a\":\"x\xff\xc3\"}",
		"half a surrogate":         `{"id":1,"a":"\ud83d"}`,
		"raw tab and newline":      "{\"id\":1,\"a\":\"x\ty\nz\"}",
		"a raw NUL":                "{\"id\":1,\"a\":\"x\x00z\"}",
		"many levels":              `{"id":1,"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
		"too many levels":          `{"id":1,"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		"a duplicate member":       `{"id":1,"a":1,"a":2}`,
		"a broken name":            "{\"id\":1,\"a\xff\":1}",
		"null as first record":     `null`,
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"data":[%s,{"id":2,"a":"y"},{"id":3,"a":"z"}],"total":3}`, first)
			}, s)
			c, err := f.Negotiate(t.Context(), s)
			require.NoError(t, err)
			if name != "null as first record" {
				require.Equal(t, []string{"id"}, c.Key)
			}
			pages := 0
			for p, err := range f.Pages(t.Context(), c.Apply(s), "") {
				require.NoError(t, err)
				require.Equal(t, "["+first+`,{"id":2,"a":"y"},{"id":3,"a":"z"}]`, string(p.Records))
				require.EqualValues(t, 3, p.Total)
				pages++
			}
			require.Equal(t, 1, pages)
		})
	}
}
