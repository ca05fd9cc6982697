// Package forecast computes what a run will cost, from the costs of earlier runs and from the first pages of lists.
package forecast

import (
	"cmp"
	"math"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// Basis says where the figures of a stream in a [Forecast] come from.
type Basis string

const (
	Measured Basis = "measured" // from the stream's own last run
	Stated   Basis = "stated"   // from the first page of the list
	Derived  Basis = "derived"  // from the size of the parent's list
	Single   Basis = "single"   // the endpoint returns one object
	Guessed  Basis = "guessed"  // nothing is known about the list
)

// History is the cost of one stream's last run, all passes together.
type History struct {
	Records  int64 // records of the last pass
	Pages    int64
	Requests int64

	Probes  int64 // how many of the requests found out how the list is paged; the next run does not send these requests
	Reread  bool  // the list has one page, which was read twice
	Parents int64 // parents that were requested; 0 if any parent was skipped
	Windows int64 // time windows that were requested; 0 if the pass did not read all of them
}

// Size is the size of a list that no run has read yet.
type Size struct {
	Records int64
	Pages   int64
	Probes  int64 // requests of the first run that find out how the list is paged
	Bytes   int64 // size of all pages
	AtLeast bool  // the list has more pages, and does not state how many

	guessed bool // nothing is known about the list
}

// Lane is one credential. All its requests share one rate limit.
type Lane struct {
	Name  string
	Rate  float64 // requests per second
	Known bool    // the rate is configured or learned; else it is a guess
}

// Knowledge is the input of a forecast.
type Knowledge struct {
	Streams  []schemas.Stream                            // in the order of the run
	History  map[string]History                          // by stream; a stream that was never read has no entry
	Sizes    map[string]Size                             // by stream; sizes of the lists that have no history
	Sent     int64                                       // requests that found out the sizes
	Expected func(s schemas.Stream, parents int64) int64 // how many of the given number of parents a pass requests if no parent has changed
	Find     func(stream string) (schemas.Stream, bool)  // finds a parent that is not a stream of the run
	Lane     func(stream string) Lane                    // returns the lane of a stream
	Last     RunDuration                                 // cost of the last complete run
	PageSize float64                                     // bytes of a page in the last run; 0: unknown
	Deadline time.Duration                               // 0: none
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
	AtLeast  bool    `json:"at_least,omitempty"` // the stream needs at least these figures, and maybe more
	Skipped  bool    `json:"skipped,omitempty"`  // ends after the deadline
}

// Forecast is the expected cost of a run.
type Forecast struct {
	Pages    int64    `json:"pages"`
	Requests int64    `json:"requests"`
	Records  int64    `json:"records"`
	Bytes    int64    `json:"bytes"`
	Seconds  float64  `json:"seconds"`
	AtLeast  bool     `json:"at_least,omitempty"` // the run needs at least these figures; true if AtLeast is true for one of its streams
	Sent     int64    `json:"sent"`               // requests that the forecast has sent
	Guessed  int      `json:"guessed"`            // streams whose size is unknown
	Skipped  int      `json:"skipped"`            // streams that end after the deadline
	Streams  []Stream `json:"streams"`

	AssumedRates map[string]float64 `json:"assumed_rates,omitempty"` // requests per second, by lane, where the rate limit is not known
	Unmeasured   bool               `json:"unmeasured,omitempty"`    // no complete run was measured, so only the rate limits determine the times
}

// Assumed sizes, in bytes, of answers that were never read.
const (
	guessPageSize   = 40 << 10
	guessAnswerSize = 2 << 10 // the answer to a request for one record
)

// New adds up the costs of the streams. The streams of a lane run one after another at the lane's rate, and lanes run
// in parallel. If the last run took longer than the rate limits require, the times of the forecast are multiplied
// accordingly.
func New(k Knowledge) Forecast {
	f := Forecast{Sent: k.Sent, Unmeasured: k.Last.Requests <= 0}
	sizes := map[string]Size{}    // sizes of the streams that come earlier in the order
	lanes := map[string]float64{} // seconds of each lane so far
	for _, s := range k.Streams {
		one := k.forecast(s, sizes)
		sizes[s.Name] = Size{Records: one.Records, AtLeast: one.AtLeast || one.Basis == Derived && !s.Class.Single(), guessed: one.Basis == Guessed}
		lane := k.Lane(s.Name)
		one.Lane = lane.Name
		if !lane.Known {
			if f.AssumedRates == nil {
				f.AssumedRates = map[string]float64{}
			}
			f.AssumedRates[lane.Name] = lane.Rate
		}
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
	f.AtLeast = f.AtLeast || s.AtLeast
	if s.Basis == Guessed {
		f.Guessed++
	}
	f.Streams = append(f.Streams, s)
}

// slow multiplies the times so that they fit the duration of the last run. If this run needs more requests than the
// last run, the additional requests take the time that the rate limits require.
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

func (k Knowledge) forecast(s schemas.Stream, before map[string]Size) Stream {
	one := Stream{Stream: s.Name}
	size, looked := k.Sizes[s.Name]
	h, known := k.History[s.Name]
	switch {
	case known:
		one.Basis, one.Pages, one.Requests, one.Records = Measured, h.Pages, k.next(s, h), h.Records
	case looked:
		one.Basis, one.Pages, one.Requests, one.Records, one.AtLeast = Stated, size.Pages, size.Pages+size.Probes, size.Records, size.AtLeast
	case s.Parent != "":
		one = k.child(s, before)
	case s.Class.Single():
		one.Basis, one.Pages, one.Requests, one.Records = Single, 1, 1, 1
	default:
		one.Basis, one.Pages, one.Requests, one.AtLeast = Guessed, 1, 1, true
	}
	switch one.Basis {
	case Measured:
		one.Bytes = int64(float64(one.Pages) * cmp.Or(k.PageSize, guessPageSize))
	case Stated:
		one.Bytes = size.Bytes
	default:
		one.Bytes = one.Requests * guessAnswerSize
	}
	return one
}

// child() forecasts one request for each record of the parent. If the parent is not a stream of the run, it adds the
// requests that read the parent's list.
func (k Knowledge) child(s schemas.Stream, before map[string]Size) Stream {
	of, sure := k.sizeOf(s.Parent, before, 0)
	one := Stream{Stream: s.Name, Basis: Derived, Records: of.Records, Pages: of.Records, Requests: of.Records + of.Pages, AtLeast: of.AtLeast}
	if !sure {
		one.Basis, one.AtLeast = Guessed, true
	}
	one.Pages, one.Requests = max(1, one.Pages), max(1, one.Requests)
	return one
}

// maxGenerations limits how many parents of parents sizeOf follows.
const maxGenerations = 10

// sizeOf returns the size of a parent's list, and whether anything is known about the list. The field Pages counts
// only the pages that the run reads for child streams.
func (k Knowledge) sizeOf(parent string, before map[string]Size, generation int) (size Size, sure bool) {
	if size, ok := before[parent]; ok {
		return size, !size.guessed
	}
	if size, ok := k.Sizes[parent]; ok {
		return size, true
	}
	s, ok := k.Find(parent)
	if h, read := k.History[parent]; read && ok {
		return Size{Records: h.Records, Pages: k.next(s, h)}, true
	}
	if !ok || s.Parent == "" || generation > maxGenerations {
		return Size{Pages: 1}, false
	}
	size, sure = k.sizeOf(s.Parent, before, generation+1)
	size.Pages += size.Records
	return size, sure
}

// next returns how many requests the next run sends if nothing changes. The parameter `h` is the cost of the last run.
func (k Knowledge) next(s schemas.Stream, h History) int64 {
	requests := h.Requests
	if h.Probes > 0 {
		pages := h.Pages
		if h.Reread {
			pages *= 2
		}
		requests = max(h.Requests-h.Probes, pages)
	}
	of, part := int64(1), int64(1)
	switch {
	case h.Parents > 0:
		of, part = h.Parents, k.Expected(s, h.Parents)
	case h.Windows > 0:
		of, part = h.Windows, min(h.Windows, int64(s.Months.Back())+1)
	}
	return (requests*part + of - 1) / of
}

// Outlook compares a run with its forecast. Errors are relative to the forecast: 0.1 means that the run needed a
// tenth more than forecast.
type Outlook struct {
	Requests      int64   `json:"requests"` // as forecast
	Seconds       float64 `json:"seconds"`
	RequestsError float64 `json:"requests_error"`
	SecondsError  float64 `json:"seconds_error"`
}

// Compare compares f with what a run needed.
func (f *Forecast) Compare(requests int64, took time.Duration) *Outlook {
	o := &Outlook{Requests: f.Requests, Seconds: round3(f.Seconds)}
	o.RequestsError = off(float64(requests), float64(f.Requests))
	o.SecondsError = off(took.Seconds(), f.Seconds)
	return o
}

func off(got, want float64) float64 { return round3((got - want) / math.Max(want, 1e-3)) }

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }
