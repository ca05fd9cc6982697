// Package verify reads a source again and compares it with the tables in the destinations, row by row.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// Options limit a comparison.
type Options struct {
	// Requests is the maximum number of requests over all streams; 0 means no limit. A few more requests may be sent,
	// because pages are requested before they are needed.
	Requests int
	Keys     int // maximum number of listed differences per stream and destination; 0 means 20

	compared int64 // maximum number of rows of a table in memory; 0 means maxCompared
}

// Limits of the memory that a comparison takes. // Invariant 6
const (
	maxCompared = 1 << 19
	batchRows   = 10_000
	batchBytes  = 18 << 20
)

const defaultKeys = 20

// Agreement is the result of comparing a destination's tables with the source.
type Agreement string

// The results for a stream in a destination.
const (
	Equal     Agreement = "equal"     // the same records with the same content
	Different Agreement = "different" // see the differences
	Unchecked Agreement = "unchecked" // not compared: Err says why
)

// DifferenceKind is the kind of a Difference.
type DifferenceKind string

// The kinds of differences.
const (
	RowMissing DifferenceKind = "missing" // only the source has the row
	RowExtra   DifferenceKind = "extra"   // only the destination has the row
	RowDiffers DifferenceKind = "differs" // both have the row, with different content
)

// Difference is one row that differs.
type Difference struct {
	Kind  DifferenceKind `json:"kind"`
	Table string         `json:"table"`
	Key   string         `json:"key"` // as JSON; the row's hash if the table has no key
}

// Result is the result for one stream in one destination. The rows of child tables are counted too.
type Result struct {
	Stream      string       `json:"stream"`
	Destination string       `json:"destination"`
	Agreement   Agreement    `json:"agreement"`
	Records     int64        `json:"records"`  // records from the source
	Rows        int64        `json:"rows"`     // live rows in the destination, without earlier versions of rows
	Missing     int64        `json:"missing"`  // number of missing rows, including those that List omits
	Extra       int64        `json:"extra"`    // number of extra rows, including those that List omits
	Differing   int64        `json:"differs"`  // number of differing rows, including those that List omits
	Filtered    int64        `json:"filtered"` // records that the stream's rules leave out
	Rejected    int64        `json:"rejected"` // records that no table can hold
	List        []Difference `json:"list,omitempty"`
	Requests    int          `json:"requests"` // for the stream, counted once for all destinations
	Err         error        `json:"-"`
}

// Report is the outcome of a comparison.
type Report struct {
	Pipeline string    `json:"pipeline"`
	Started  time.Time `json:"started_at"`
	Ended    time.Time `json:"ended_at"`
	Requests int       `json:"requests"`
	Streams  []Result  `json:"streams"` // one for each stream and destination; the results of a stream follow each other
}

// ExitCode returns 0 if everything is equal and 1 if something differs. It returns 75 if nothing differs but not
// everything was compared. // Invariant 14
func (r Report) ExitCode() int {
	code := failure.ExitDone
	for _, s := range r.Streams {
		switch s.Agreement {
		case Different:
			return failure.ExitFailed
		case Unchecked:
			code = failure.ExitPartial
		}
	}
	return code
}

var errBudget = errors.New("the request limit is reached")

var errGaps = errors.New("the source does not return all of its records")

// Run reads the streams of c again, maps their records, and compares keys and hashes with the rows of the
// destinations' tables. It writes nothing. A record that changed at the source since the last run counts as different
// too.
//
// The keys and hashes of a stream are kept in a temporary file. At most half a million of them are in memory,
// about 64 MB; a larger table is scanned in several parts.
func Run(ctx context.Context, c pipeline.Config, o Options) (Report, error) {
	rep := Report{Pipeline: c.Name, Started: time.Now()}
	streams, err := pipeline.Settle(ctx, c)
	if err != nil {
		return rep, err
	}
	o.Keys, o.compared = cmp.Or(o.Keys, defaultKeys), cmp.Or(o.compared, maxCompared)
	v := &verifier{Config: c, options: o}
	for _, s := range streams {
		rep.Streams = append(rep.Streams, v.stream(ctx, s)...)
		v.NoMorePasses(s)
	}
	rep.Requests, rep.Ended = v.requests, time.Now()
	if ctx.Err() != nil {
		return rep, context.Cause(ctx)
	}
	return rep, nil
}

type verifier struct {
	pipeline.Config
	options  Options
	requests int
}

func (v *verifier) stream(ctx context.Context, s schemas.Stream) []Result {
	out := make([]Result, len(v.Destinations))
	known := make([][]schemas.Table, len(v.Destinations))
	for i, d := range v.Destinations {
		out[i] = Result{Stream: s.Name, Destination: d.Name, Agreement: Unchecked}
		known[i], out[i].Err = d.Tables(ctx, s.Table.Name)
	}
	b := rowhash.NewFile()
	defer b.Close()
	before := v.requests
	seen, err := v.read(ctx, s, schemas.JoinTables(known...), b)
	for i, d := range v.Destinations {
		k := &out[i]
		k.Requests = v.requests - before
		if k.Err = errors.Join(k.Err, err); k.Err != nil {
			continue
		}
		k.Records, k.Filtered, k.Rejected = seen.Records, seen.Filtered, seen.Rejected
		for _, t := range b.With(known[i]) {
			k.Err = errors.Join(k.Err, v.compare(ctx, d, t, b, k))
		}
		if s.Window {
			k.Extra = 0 // rows that only the destination has may be too old for the stream's time window
			k.List = slices.DeleteFunc(k.List, func(d Difference) bool { return d.Kind == RowExtra })
		}
		switch {
		case k.Err != nil:
		case k.Missing+k.Extra+k.Differing > 0:
			k.Agreement = Different
		default:
			k.Agreement = Equal
		}
	}
	return out
}

// read maps the records of the stream, and enters the keys and hashes of their rows in b. In the result, only the
// numbers of records are set.
func (v *verifier) read(ctx context.Context, s schemas.Stream, known []schemas.Table, b *rowhash.File) (seen Result, err error) {
	m := transform.NewMapper(s, transform.Stamp{Via: "poll"}, known)
	defer m.Close()
	shaper, err := transform.NewShaper(m, true)
	if err != nil {
		return seen, err
	}
	flush := func() error {
		batches, _ := m.Flush()
		batches, _, err := shaper.Shape(batches)
		for _, t := range batches {
			err = errors.Join(err, b.Enter(t.Table, t.Batch))
			t.Batch.Release()
		}
		return err
	}
	err = pipeline.Guard(s.Name, func() error {
		return v.pages(ctx, s, func(page extract.Page) error {
			for full, err := range m.AppendParts(page.Parts()) {
				if err == nil && (full || m.Rows() >= batchRows || m.Bytes() >= batchBytes) {
					err = flush()
				}
				if err != nil {
					return err
				}
			}
			if page.End == nil {
				return nil
			}
			return flush()
		})
	})
	seen.Filtered = shaper.Filtered()
	seen.Records, seen.Rejected = m.Fetched()-seen.Filtered, m.Rejected()+shaper.Rejected()
	return seen, err
}

func (v *verifier) pages(ctx context.Context, s schemas.Stream, visit func(extract.Page) error) error {
	if v.spent() {
		return fmt.Errorf("%s: %w", s.Name, errBudget)
	}
	for page, err := range v.Source.Pages(ctx, s, "") {
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		v.requests += page.Requests
		if err := visit(page); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		switch {
		case page.End != nil && len(page.End.Gaps) > 0:
			return fmt.Errorf("%s: %w: %s", s.Name, errGaps, page.End.Gaps[0])
		case page.End != nil:
			return nil
		case v.spent():
			return fmt.Errorf("%s: %w", s.Name, errBudget)
		}
	}
	return fmt.Errorf("%s: the pages stopped before the end of the list", s.Name)
}

func (v *verifier) spent() bool { return v.options.Requests > 0 && v.requests >= v.options.Requests }
