package render

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// What a check has found can contain a text from the source. A terminal must not execute it.
func TestStatusPrintsChecksSafely(t *testing.T) {
	var out Answer
	row := []any{}
	for name, v := range map[string]string{"pipeline": "nightly", "stream": "crm.leads", "state": "complete", "verdict": "proven", "fetched": "", "deleted": "", "updated_at": "", "why": "", "drift": "", "checks": "mails could not run: \x1b[2Jgone"} {
		out.Columns, row = append(out.Columns, schemas.Field(name, schemas.Text, "")), append(row, v)
	}
	out.Rows = [][]any{row}
	var b bytes.Buffer
	Status(&b, out, time.Now(), nil)
	require.Contains(t, b.String(), "crm.leads: mails could not run: ")
	require.NotContains(t, b.String(), "\x1b")
}
