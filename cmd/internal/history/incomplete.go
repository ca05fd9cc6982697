package history

import (
	"context"
	"encoding/json"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Incomplete describes the newest run in which a stream did not become complete: its id, and the stream's status and
// reason in it.
type Incomplete struct{ Run, Status, Reason string }

// IncompleteStreams returns the streams that some run did not complete. A later run may have completed them.
func IncompleteStreams(ctx context.Context, d load.Destination) (map[state.Key]Incomplete, error) {
	open := map[state.Key]Incomplete{}
	err := Scan(ctx, d, load.Runs, func(r Row) error {
		var counts struct {
			Open  map[string][]string
			Words map[string]string
		}
		if json.Unmarshal([]byte(r.Text("counts")), &counts) != nil {
			return nil // a run under way
		}
		for status, streams := range counts.Open {
			for _, s := range streams {
				k := state.Key{Pipeline: r.Text("pipeline"), Source: r.Text(schemas.ColSource), Stream: s}
				if o := (Incomplete{r.Text("run"), status, counts.Words[s]}); o.Run > open[k].Run {
					open[k] = o
				}
			}
		}
		return nil
	})
	return open, err
}
