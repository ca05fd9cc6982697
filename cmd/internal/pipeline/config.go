package pipeline

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// Source yields pages, as *extract.Client does. The method Pages may be called again for a stream whose pass has ended
// or was given up, and concurrently for different streams.
type Source interface {
	Pages(ctx context.Context, s schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error]
}

// Destination is a load.Destination with its name in the configuration.
type Destination struct {
	Name string
	load.Destination
}

// SQL reads a destination that is not a database in SQL.
type SQL interface {
	load.Checker

	// Ask passes a querier to use().
	Ask(ctx context.Context, use func(load.Querier) error) error
}

// Defaults of a Config.
const (
	DefaultWorkers    = 8
	DefaultByteBudget = 192 << 20
	DefaultGroupBytes = 72 << 20
)

// Config configures a run.
type Config struct {
	Name string // name of the pipeline
	Run  string // id of the run, see package runid; "": a new one

	From         string // name of the source
	Source       Source
	Destinations []Destination
	Streams      []schemas.Stream           // parents before their children
	Log          map[string]bool            // streams whose row changes are recorded in _penstock_changes
	Checks       map[string][]schemas.Check // checks of the streams' tables

	// OwnOrigin contains the streams that have an origin of their own, or a credential of their own, or both. The
	// other streams use the origin and the credential of their surface.
	OwnOrigin map[string]bool

	// Origins maps stream names to the origin that each stream is read from. A destination stores the origin with its
	// tables, and refuses a pass from another origin.
	Origins map[string]load.Origin

	// SQL maps names of destinations to what reads them in SQL. A database needs no entry, because it does so itself.
	SQL map[string]SQL

	// Files maps names of destinations to folders, in which the files that belong to records are stored. A destination
	// without a folder stores only the rows about files.
	Files map[string]string

	// Catalogue contains streams whose requests return one record of a list. They are used with a Source that
	// implements RecordSource. With such a stream, penstock can confirm that a missing record is gone and delete its
	// row, even if the list proves nothing. Catalogue may be nil.
	Catalogue []schemas.Stream

	Workers    int     // streams read concurrently; 0: DefaultWorkers
	ByteBudget int64   // bytes of records between source and commit, over all streams; 0: DefaultByteBudget
	Budget     *Budget // shared with other runs of this process; nil: a new budget of ByteBudget bytes
	GroupBytes int64   // approximate bytes of rows per commit; 0: DefaultGroupBytes
	GroupRows  int     // rows per commit; up to one page more is possible; 0: a default for destinations that state no preference

	// Keep is how long the rows of penstock's own tables stay in the destinations; 0: forever. See [load.Trimmer] for
	// the rows that always stay.
	Keep time.Duration

	// KeepEvents is how long the webhook events of the source stay in the destinations; 0: forever. It may be longer
	// than Keep, because other pipelines may read the same source.
	KeepEvents time.Duration

	// Locks is shared with the code of this process that commits webhook deltas of the pipeline. It is nil if the
	// pipeline has no deltas.
	Locks *overlay.Locks

	Options  Options
	Progress func(Event) // called with each event, from many goroutines; may be nil

	// Forecast returns the expected cost of the run, or nil if it is unknown. It gets the first destination, which
	// stores facts about past runs. A scan of this destination may return only the rows that [load.SurveyedOwn]
	// describes. Forecast itself may be nil.
	Forecast func(context.Context, load.Destination) *forecast.Forecast

	// Now returns the time for rows, certificates and reports. Processes that share the state must use the same clock:
	// see [state.Store]. If Now is nil, the clock of this machine is used.
	Now func() time.Time

	limits      limits // limits of batches and groups; zero: defaultLimits
	withoutRule string // the rule of proof that a test disables; "" for none
}

// Options change what one run does. The zero value is a scheduled run.
type Options struct {
	Full          bool // read every stream from its beginning, ignoring an unfinished pass
	ConfirmShrink bool // a person has confirmed the deletions that need confirmation: see package proof
	DryRun        bool // read and map, but write nothing

	Backfill *Backfill // the range to read instead of changes; nil for a scheduled run
}

// limits sets when a group is committed: when it is large enough to be worth the cost of a commit, or when it is so old
// that after a failure it would take long to read its pages again.
type limits struct {
	batchRows  int
	batchBytes int64
	groupRows  int
	groupBytes int64
	groupAge   time.Duration
	patience   time.Duration // maximum time from the commit of the first destination to the commits of the other destinations
	keySlots   int           // how many keys of a pass are remembered, to find records with the same key
}

var defaultLimits = limits{
	batchRows:  10_000,
	batchBytes: 32 << 20,
	groupRows:  122_880,
	groupBytes: DefaultGroupBytes,
	groupAge:   30 * time.Second,
	patience:   5 * time.Minute,
	keySlots:   transform.MostKeySlots,
}

// Key returns the key under which the stream's cursor is stored.
func (c *Config) Key(stream string) state.Key {
	return state.Key{Pipeline: c.Name, Stream: stream}
}

func (c *Config) claim(s schemas.Stream) load.Claim {
	return load.Claim{Table: s.Table.Name, Origin: c.Origins[s.Name]}
}

func (c *Config) passOf(s schemas.Stream, id string, whole bool) load.Pass {
	held := slices.DeleteFunc(slices.Clone(c.Checks[s.Name]), func(c schemas.Check) bool { return !c.Hold })
	return load.Pass{Run: id, Source: c.From, Whole: whole, Log: c.Log[s.Name], Hold: held, Now: c.Now, Claim: c.claim(s)}
}

// OncePass returns a pass over s that is one transaction and reads no list. The parameter `id` is the run id of its
// rows.
func (c *Config) OncePass(s schemas.Stream, id string) load.Pass {
	p := c.passOf(s, id, true)
	p.Once = true
	return p
}

// CheckAddress returns a [*load.OwnerError] if earlier passes have read s from another address.
func (c *Config) CheckAddress(s schemas.Stream, p cursor.Position) error {
	have, want := load.Owner{Pipeline: c.Name, Stream: s.Name}, load.Owner{Pipeline: c.Name, Stream: s.Name}
	want.Origin = c.Origins[s.Name]
	have.Origin = load.Origin{Source: want.Source, Address: p.Address}
	if p.Address == "" || want.Address == "" || have == want {
		return nil
	}
	return &load.OwnerError{Table: s.Table.Name, Have: have, Want: want}
}

// NoMorePasses reports to the source that s is done. Its child streams can then continue even if s made no pass.
// Invariant 15
func (c *Config) NoMorePasses(s schemas.Stream) {
	if source, ok := c.Source.(PassListener); ok {
		source.NoMorePasses(s.Name)
	}
}
