package execute

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// guessedRate is the assumed rate limit of a surface, in requests per second. It is used if the limit is neither
// configured nor learned.
const guessedRate = 80

// Forecast returns the expected cost of the run, based on past runs and on the sizes of lists.
func Forecast(r *open.Run, past history.PastRuns, sizes Sizes, deadline time.Duration) forecast.Forecast {
	return forecast.New(forecast.Knowledge{
		Streams: open.Plain(r.Streams), History: past.Streams, Sizes: sizes.Lists, Sent: sizes.Sent,
		Lane:     func(stream string) forecast.Lane { return laneOf(r, stream) },
		Expected: parents.Expected,
		Find: func(stream string) (schemas.Stream, bool) {
			s, ok := r.Conf.Stream(stream)
			return s.Stream, ok
		},
		Last: past.Last, PageSize: past.PageSize, Deadline: deadline,
	})
}

// forecastFromHistory returns the forecast of a run, based on the history in a destination. It returns nil if the
// history cannot be read, or if the size of more than a tenth of the streams is unknown.
func forecastFromHistory(ctx context.Context, r *open.Run, d load.Destination) *forecast.Forecast {
	past, err := history.ReadPastRuns(ctx, d, r.Pipeline.Name)
	if err != nil {
		return nil
	}
	f := Forecast(r, past, Sizes{}, 0)
	if f.Guessed*10 > len(f.Streams) {
		return nil
	}
	return &f
}

// laneOf returns the lane of a stream: the client that the stream uses, and the client's rate.
func laneOf(r *open.Run, stream string) forecast.Lane {
	name := stream
	if r.Source.Wires[name] == nil {
		s, _ := r.Conf.Stream(stream)
		name = string(s.Surface)
	}
	l := forecast.Lane{Name: name, Rate: guessedRate}
	if w := r.Source.Wires[name]; w != nil {
		if g := w.Governor().Stats(); g.Limit.Limit > 0 {
			l.Rate, l.Known = g.Allowed, true
		}
	}
	return l
}
