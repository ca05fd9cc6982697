package pipeline

import (
	"math"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// Basis says what a figure of a [Forecast] rests on.
type Basis string

// What figures rest on, the best first.
const (
	Measured Basis = "measured" // on the stream's own last run
	Derived  Basis = "derived"  // on its parent's records
	Guessed  Basis = "guessed"  // on what such endpoints usually take: nothing is known yet
)

// History is what the last run of one stream took, all its passes together.
type History struct {
	Records  int64 // of the last pass
	Pages    int64
	Requests int64
}

// Lane is one credential: what goes through it waits for the same limit.
type Lane struct {
	Name  string
	Rate  float64 // requests a second
	Known bool    // the rate is configured or learned; else it is a guess
}

// Knowledge is what a forecast is made from. Nothing is requested for it.
type Knowledge struct {
	Streams  []schemas.Stream         // in the order in which the run takes them up
	History  map[string]History       // by stream; only of those that were read before
	Lane     func(stream string) Lane // that a stream goes through
	Last     RunDuration              // of the last complete run
	PageSize float64                  // bytes of a page in the last run; 0: unknown
	Deadline time.Duration            // 0: none
}

// RunDuration is what a whole run took; the zero value where there was none.
type RunDuration struct {
	Requests float64
	Seconds  float64
}

// StreamForecast is what one stream is expected to take.
type StreamForecast struct {
	Stream   string  `json:"stream"`
	Lane     string  `json:"lane"`
	Pages    int64   `json:"pages"`
	Requests int64   `json:"requests"`
	Records  int64   `json:"records"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"` // alone, under the limit
	Ends     float64 `json:"ends_at"` // seconds after the run has begun
	Basis    Basis   `json:"basis"`
	Skipped  bool    `json:"skipped,omitempty"` // ends after the deadline
}

// Forecast is what a run is expected to take, before anything is requested.
type Forecast struct {
	Pages    int64            `json:"pages"`
	Requests int64            `json:"requests"`
	Records  int64            `json:"records"`
	Bytes    int64            `json:"bytes"`
	Seconds  float64          `json:"seconds"`
	Guessed  int              `json:"guessed"` // streams of which nothing is known yet
	Skipped  int              `json:"skipped"` // streams that end after the deadline
	Streams  []StreamForecast `json:"streams"`
}

// What is assumed of a stream that was never read.
const (
	guessPages    = 2
	guessRecords  = 100 // a page
	guessPageSize = 40 << 10
	guessProbes   = 6 // requests that find out how an endpoint answers, once
)

// NewForecast adds up what the streams will take. The streams of a lane follow
// each other at the lane's rate, lanes run side by side, and a run that took
// longer than its limits ask for is expected to do so again.
func NewForecast(k Knowledge) Forecast {
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

func (f *Forecast) add(s StreamForecast) {
	f.Pages += s.Pages
	f.Requests += s.Requests
	f.Records += s.Records
	f.Bytes += s.Bytes
	if s.Basis == Guessed {
		f.Guessed++
	}
	f.Streams = append(f.Streams, s)
}

// slow stretches the times to what the last run took: as much again, more for
// further requests at the rate of the limits, and less for fewer.
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

// cut marks what a run that is ended at the deadline would not finish.
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

// forecast is what one stream will take, given the records of those before it.
func (k Knowledge) forecast(s schemas.Stream, records map[string]int64) StreamForecast {
	one := StreamForecast{Stream: s.Name, Basis: Guessed}
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

// Outlook is how a run has held against its forecast. Errors are shares of what
// was forecast: 0.1 means that it took a tenth more.
type Outlook struct {
	Requests      int64   `json:"requests"` // as forecast
	Seconds       float64 `json:"seconds"`
	Guessed       int     `json:"guessed,omitempty"` // streams of which nothing was known
	RequestsError float64 `json:"requests_error"`
	SecondsError  float64 `json:"seconds_error"`
}

// against is the outlook of a run after its end; nil for one without a forecast
// or one that was stopped.
func (f *Forecast) against(r Report) *Outlook {
	if f == nil || r.Status != StatusComplete && r.Status != StatusPartial {
		return nil
	}
	o := &Outlook{Requests: f.Requests, Seconds: round3(f.Seconds), Guessed: f.Guessed}
	o.RequestsError = off(float64(r.Requests), float64(f.Requests))
	o.SecondsError = off(r.Ended.Sub(r.Started).Seconds(), f.Seconds)
	return o
}

// off is by which share of want, which is not 0, got is more.
func off(got, want float64) float64 { return round3((got - want) / math.Max(want, 1e-3)) }

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }
