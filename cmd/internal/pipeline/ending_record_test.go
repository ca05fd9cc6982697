package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
)

// A member of a certificate is left out only if readers can derive its value. For example, the member `longest` is left
// out if it equals the number of distinct records. In the certificate of a first pass, `longest` is 0 and is not left
// out.
func TestShortCertificate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		longest, alive int64
		want           map[string]any
	}{
		{5, 5, map[string]any{}},
		{0, 5, map[string]any{"longest": 0.0}},
		{7, 0, map[string]any{"longest": 7.0, "alive": 0.0}},
	} {
		w := witnesses{Pass: "r1", Decided: proof.NoneMissing, Facts: proof.Facts{Distinct: 5, Longest: c.longest}, Longest: &c.longest, Alive: &c.alive}
		w.shorten("r1")
		text, err := json.Marshal(w)
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(text, &got))
		for _, name := range []string{"pass", "decided", "longest", "alive"} {
			require.Equal(t, c.want[name], got[name], name)
		}
		require.Equal(t, 5.0, got["distinct"])
	}
}
