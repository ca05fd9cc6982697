// Package forecast computes what a run will cost, from the costs of earlier runs and without any request.
package forecast

import (
	"math"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// Basis is the basis of a figure in a [Forecast].
type Basis string

const (
	Measured Basis = "measured" // from the stream's own last run
	Derived  Basis = "derived"  // from its parent's records
	Guessed  Basis = "guessed"  // from the usual cost of such endpoints, because the stream has not been read yet
)

// History is the cost of one stream's last run, all passes together.
type History struct {
	Records  int64 // records of the last pass
	Pages    int64
	Requests int64
}

// Lane is one credential. All its requests share one rate limit.
type Lane struct {
	Name  string
	Rate  float64 // requests per second
	Known bool    // the rate is configured or learned; else it is a guess
}

// Knowledge is the input of a forecast.
type Knowledge struct {
	Streams  []schemas.Stream         // in the order of the run
	History  map[string]History       // by stream; only of streams that were read before
	Lane     func(stream string) Lane // returns the lane of a stream
	Last     RunDuration              // cost of the last complete run
	PageSize float64                  // bytes of a page in the last run; 0: unknown
	Deadline time.Duration            // 0: none
}

// RunDuration is the cost of a whole run; the zero value if there was none.
type RunDuration struct {
	Requests float64
	Seconds  float64
}

// Stream is the expected cost of one stream.
type Stream struct {
	Stream   string  `json:"stream"`
	Lane     string  `json:"lane"`
	Pages    int64   `json:"pages"`
	Requests int64   `json:"requests"`
	Records  int64   `json:"records"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"` // for this stream only, at the lane's rate
	Ends     float64 `json:"ends_at"` // seconds after the run began
	Basis    Basis   `json:"basis"`
	Skipped  bool    `json:"skipped,omitempty"` // ends after the deadline
}

// Forecast is the expected cost of a run, computed without any request.
type Forecast struct {
	Pages    int64    `json:"pages"`
	Requests int64    `json:"requests"`
	Records  int64    `json:"records"`
	Bytes    int64    `json:"bytes"`
	Seconds  float64  `json:"seconds"`
	Guessed  int      `json:"guessed"` // streams without a history
	Skipped  int      `json:"skipped"` // streams that end after the deadline
	Streams  []Stream `json:"streams"`
}

// Assumptions about a stream that was never read.
const (
	guessPages    = 2
	guessRecords  = 100 // per page
	guessPageSize = 40 << 10
	guessProbes   = 6 // probes of an unknown endpoint, sent once
)

// New adds up the costs of the streams. The streams of a lane run one after another at the lane's rate, and lanes run
// in parallel. If the last run took longer than the rate limits require, the times of the forecast are multiplied
// accordingly.
func New(k Knowledge) Forecast {
	var f Forecast
	records := map[string]int64{}
	lanes := map[string]float64{} // seconds
	for _, s := range k.Streams {
		one := k.forecast(s, records)
		records[s.Name] = one.Records
		lane := k.Lane(s.Name)
		one.Lane = lane.Name
		one.Seconds = float64(one.Requests) / math.Max(lane.Rate, 1e-6)
		lanes[lane.Name] += one.Seconds
		one.Ends = lanes[lane.Name]
		f.add(one)
	}
	for _, s := range lanes {
		f.Seconds = math.Max(f.Seconds, s)
	}
	f.slow(k.Last)
	f.cut(k.Deadline)
	return f
}

func (f *Forecast) add(s Stream) {
	f.Pages += s.Pages
	f.Requests += s.Requests
	f.Records += s.Records
	f.Bytes += s.Bytes
	if s.Basis == Guessed {
		f.Guessed++
	}
	f.Streams = append(f.Streams, s)
}

// slow multiplies the times so that they fit the duration of the last run. If this run needs more requests than the
// last, the additional requests take the time that the rate limits require.
func (f *Forecast) slow(last RunDuration) {
	if last.Requests <= 0 || f.Seconds <= 0 {
		return
	}
	want := last.Seconds * float64(f.Requests) / last.Requests
	if more := float64(f.Requests) - last.Requests; more > 0 {
		want = last.Seconds + more*f.Seconds/float64(f.Requests)
	}
	stretch := want / f.Seconds
	if stretch <= 1 {
		return
	}
	f.Seconds = want
	for i := range f.Streams {
		f.Streams[i].Ends *= stretch
	}
}

func (f *Forecast) cut(deadline time.Duration) {
	if deadline <= 0 {
		return
	}
	for i := range f.Streams {
		if s := &f.Streams[i]; s.Ends > deadline.Seconds() {
			s.Skipped = true
			f.Skipped++
		}
	}
}

func (k Knowledge) forecast(s schemas.Stream, records map[string]int64) Stream {
	one := Stream{Stream: s.Name, Basis: Guessed}
	h, known := k.History[s.Name]
	parents, fed := records[s.Parent]
	switch {
	case known:
		one.Basis, one.Pages, one.Requests, one.Records = Measured, h.Pages, h.Requests, h.Records
	case s.Parent != "" && fed:
		one.Requests, one.Pages, one.Records = max(1, parents), max(1, parents), parents
		if _, read := k.History[s.Parent]; read {
			one.Basis = Derived
		}
	case s.Class == schemas.ClassList:
		one.Requests, one.Pages, one.Records = guessPages+guessProbes, guessPages, guessPages*guessRecords
	default:
		one.Requests, one.Pages, one.Records = 1, 1, 1
	}
	size := k.PageSize
	if size <= 0 {
		size = guessPageSize
	}
	one.Bytes = int64(float64(one.Pages) * size)
	return one
}

// Outlook compares a run with its forecast. Errors are relative to the forecast: 0.1 means that the run needed a
// tenth more than forecast.
type Outlook struct {
	Requests      int64   `json:"requests"` // as forecast
	Seconds       float64 `json:"seconds"`
	Guessed       int     `json:"guessed,omitempty"` // streams that had no history
	RequestsError float64 `json:"requests_error"`
	SecondsError  float64 `json:"seconds_error"`
}

// Compare compares f with what a run needed.
func (f *Forecast) Compare(requests int64, took time.Duration) *Outlook {
	o := &Outlook{Requests: f.Requests, Seconds: round3(f.Seconds), Guessed: f.Guessed}
	o.RequestsError = off(float64(requests), float64(f.Requests))
	o.SecondsError = off(took.Seconds(), f.Seconds)
	return o
}

func off(got, want float64) float64 { return round3((got - want) / math.Max(want, 1e-3)) }

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }
