package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// VerifyOptions bound what a Verify does.
type VerifyOptions struct {
	// Requests is how many it may make, over all streams; 0: as many as it
	// takes. A source that asks for pages ahead of time may have asked for a few
	// more when it is stopped.
	Requests int
	Streams  []string // by name, of Config.Streams; nil: all of them
	Keys     int      // differences that are listed, for each stream and destination; 0: 20
}

const defaultKeys = 20

// Agreement says how a destination's tables compare with the source.
type Agreement string

// How a stream compares in a destination.
const (
	Equal     Agreement = "equal"     // the same records with the same content
	Different Agreement = "different" // see the differences
	Unchecked Agreement = "unchecked" // it was not compared: Err says why
)

// DifferenceKind says what is wrong with one row.
type DifferenceKind string

// The kinds of differences.
const (
	RowMissing DifferenceKind = "missing" // the source has it, the destination does not
	RowExtra   DifferenceKind = "extra"   // the destination has it, the source does not
	RowDiffers DifferenceKind = "differs" // both have it, with different content
)

// Difference is one row that is not the same.
type Difference struct {
	Kind  DifferenceKind `json:"kind"`
	Table string         `json:"table"`
	Key   string         `json:"key"` // as JSON; the row's hash where the table has no key
}

// Verified is how one stream compares in one destination, child tables
// included. Rows of a child table count as rows.
type Verified struct {
	Stream      string       `json:"stream"`
	Destination string       `json:"destination"`
	Agreement   Agreement    `json:"agreement"`
	Records     int64        `json:"records"`  // the source gave
	Rows        int64        `json:"rows"`     // in the destination: alive, and of several versions the current one
	Missing     int64        `json:"missing"`  // as Difference says, also beyond those listed
	Extra       int64        `json:"extra"`    // likewise
	Differing   int64        `json:"differs"`  // likewise
	Filtered    int64        `json:"filtered"` // records that the stream's rules leave out
	Rejected    int64        `json:"rejected"` // records that no table can hold
	List        []Difference `json:"list,omitempty"`
	Requests    int          `json:"requests"` // for the stream, whatever the number of destinations
	Err         error        `json:"-"`
}

// VerifyReport is the outcome of a Verify.
type VerifyReport struct {
	Pipeline string     `json:"pipeline"`
	Started  time.Time  `json:"started_at"`
	Ended    time.Time  `json:"ended_at"`
	Requests int        `json:"requests"`
	Streams  []Verified `json:"streams"` // in the order of Streams and Destinations
}

// ExitCode is 0 where everything that was asked for is equal, 1 where something
// is different, and 75 where nothing is, but not everything was compared.
// Invariant 14
func (r VerifyReport) ExitCode() int {
	code := exitComplete
	for _, s := range r.Streams {
		switch s.Agreement {
		case Different:
			return exitFailed
		case Unchecked:
			code = exitPartial
		}
	}
	return code
}

// errBudget is why a stream was not compared.
var errBudget = errors.New("the request budget has ended")

// errGaps is another: nobody can tell what the records are that did not come.
var errGaps = errors.New("the source does not give all of its records")

// Verify reads the streams of c again, as they are now, and compares what their
// records would be in the tables with what the destinations have: keys and
// hashes, row by row. It writes nothing anywhere. What the source has changed
// since the last run is a difference like any other.
//
// The keys and hashes of a stream wait in a temporary file. Half a million of
// them are in memory at a time, some 64 MB; a larger table is scanned once for
// each such part.
func Verify(ctx context.Context, c Config, o VerifyOptions) (VerifyReport, error) {
	rep := VerifyReport{Pipeline: c.Name, Started: time.Now()}
	r, err := newRun(c)
	if err != nil {
		return rep, err
	}
	for _, name := range o.Streams {
		if !slices.ContainsFunc(r.Streams, func(s schemas.Stream) bool { return s.Name == name }) {
			return rep, fmt.Errorf("verify %s: no stream %q in it", c.Name, name)
		}
	}
	if o.Keys == 0 {
		o.Keys = defaultKeys
	}
	r.settle(ctx)
	v := &verifier{run: r, options: o}
	for _, s := range r.Streams {
		if o.Streams == nil || slices.Contains(o.Streams, s.Name) {
			rep.Streams = append(rep.Streams, v.stream(ctx, s)...)
		}
		r.ended(s)
	}
	rep.Requests, rep.Ended = v.requests, time.Now()
	if ctx.Err() != nil {
		return rep, context.Cause(ctx)
	}
	return rep, nil
}

// verifier is a Verify under way.
type verifier struct {
	*run
	options  VerifyOptions
	requests int
}

// stream compares one stream in every destination.
func (v *verifier) stream(ctx context.Context, s schemas.Stream) []Verified {
	out := make([]Verified, len(v.Destinations))
	known := make([][]schemas.Table, len(v.Destinations))
	for i, d := range v.Destinations {
		out[i] = Verified{Stream: s.Name, Destination: d.Name, Agreement: Unchecked}
		known[i], out[i].Err = d.Tables(ctx, s.Table.Name)
	}
	b := newBudgetRecord()
	defer b.close()
	before := v.requests
	seen, err := v.read(ctx, s, schemas.JoinTables(known...), b)
	for i, d := range v.Destinations {
		k := &out[i]
		k.Requests = v.requests - before
		if k.Err = errors.Join(k.Err, err); k.Err != nil {
			continue
		}
		k.Records, k.Filtered, k.Rejected = seen.fetched, seen.filtered, seen.rejected
		for _, t := range b.with(known[i]) {
			k.Err = errors.Join(k.Err, v.compare(ctx, d, t, b, k))
		}
		if s.Window {
			k.Extra = 0 // those are not of the window any more
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

// read makes b the hash file of what the source has of s now.
func (v *verifier) read(ctx context.Context, s schemas.Stream, known []schemas.Table, b *hashFile) (seen tally, err error) {
	m := transform.NewMapper(s, transform.Stamp{Run: v.Run, SyncedAt: v.started, Via: "poll"}, known)
	defer m.Close()
	shaper, err := transform.NewShaper(m, true)
	if err != nil {
		return seen, err
	}
	flush := func() error {
		batches, _ := m.Flush()
		batches, _, err := shaper.Shape(batches)
		for _, t := range batches {
			err = errors.Join(err, b.enter(t.Table, t.Batch))
			t.Batch.Release()
		}
		return err
	}
	err = guard(s.Name, func() error {
		return v.pages(ctx, s, func(page extract.Page) error {
			for full, err := range appendPage(m, page) {
				if err == nil && (full || m.Rows() >= v.limits.batchRows || m.Bytes() >= v.limits.batchBytes) {
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
	seen.filtered = shaper.Filtered()
	seen.fetched, seen.rejected = m.Fetched()-seen.filtered, m.Rejected()+shaper.Rejected()
	return seen, err
}

// pages reads a stream from its beginning to its end, as far as the budget goes.
func (v *verifier) pages(ctx context.Context, s schemas.Stream, each func(extract.Page) error) error {
	if v.spent() {
		return fmt.Errorf("%s: %w", s.Name, errBudget)
	}
	for page, err := range v.Source.Pages(ctx, s, "") {
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		v.requests += page.Requests
		if err := each(page); err != nil {
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
	return fmt.Errorf("%s: the pages stopped before their end", s.Name)
}

func (v *verifier) spent() bool { return v.options.Requests > 0 && v.requests >= v.options.Requests }
