package history

import (
	"context"
	"encoding/json"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// KeyOf returns the stream key of a row of one of penstock's own tables.
func KeyOf(r Row) state.Key {
	return state.Key{Pipeline: r.Text("pipeline"), Source: r.Text(schemas.ColSource), Stream: r.Text("stream")}
}

// Reasons returns the reasons of a verdict, from the witnesses in a certificate. It returns nil for a certificate
// of an earlier release.
func Reasons(witnesses string) any {
	var w struct{ Why string }
	if json.Unmarshal([]byte(witnesses), &w) != nil || w.Why == "" {
		return nil
	}
	return w.Why
}

// Certificate is the newest certificate of a stream.
type Certificate struct {
	Run, At any
	Values  []any // values of the requested columns
}

// NewestCertificates returns the newest certificate of each stream, with the values of the given columns.
func NewestCertificates(ctx context.Context, d load.Destination, columns []string) (map[state.Key]Certificate, error) {
	newest := map[state.Key]Certificate{}
	err := Scan(ctx, d, load.Certificates, func(r Row) error {
		k := KeyOf(r)
		c := Certificate{Run: r.Value("run"), At: r.Value("at")}
		if old, ok := newest[k]; ok && (render.Compare(c.Run, old.Run) < 0 || render.Compare(c.Run, old.Run) == 0 && render.Compare(c.At, old.At) < 0) {
			return nil
		}
		for _, name := range columns {
			c.Values = append(c.Values, r.Value(name))
		}
		newest[k] = c
		return nil
	})
	return newest, err
}
