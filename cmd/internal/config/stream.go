package config

import (
	"cmp"
	"maps"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Stream is a stream of the catalogue with the settings of this configuration, or a stream that the
// configuration adds.
type Stream struct {
	schemas.Stream

	At         Pos                    // position of the stream's entry in the file; zero if the file has no entry
	Origin     string                 // scheme://host, if the path is an absolute URL; "": the origin of the surface
	Credential Auth                   // the stream's own credential, if any
	Headers    map[string]wire.Secret // sent with each request of the stream; they override those of the surface
	Mode       schemas.Mode           // "": the pipeline's mode
	Schema     Contract               // overrides the pipeline's contract
	Changes    *bool                  // nil: the pipeline's setting
	Columns    []ColumnMask           // masks of the stream's columns; they override those of the pipeline
	Checks     []Check                // checks of the stream's table
	Settings   []Setting              // the stream's entry in the file, for display
}

var modes = []string{"merge", "append", "replace", "history"}

// limits has the values of max_columns and max_tables.
type limits struct{ columns, tables int }

// The largest values of max_columns and max_tables. A destination may have lower limits. // Invariant 6
const (
	maxColumns = 20_000
	maxTables  = 2000
)

// apply sets the limits of streams that have no limits of their own.
func (l limits) apply(streams []Stream) []Stream {
	for i := range streams {
		s := &streams[i]
		s.MaxColumns, s.MaxTables = cmp.Or(s.MaxColumns, l.columns), cmp.Or(s.MaxTables, l.tables)
	}
	return streams
}

// NeedsClient reports whether a stream needs a client of its own: whether it has an origin, a credential or headers of
// its own.
func (s Stream) NeedsClient() bool { return s.Origin != "" || s.Credential.set() || s.Headers != nil }

// ColumnMask is a stream's own mask for one of its columns.
type ColumnMask struct {
	At     Pos
	Column string // path of the column
	Mask   schemas.Mask
}

// with returns a copy of a map. In the copy, the key has the given value.
func with(all map[string]string, key, value string) map[string]string {
	fresh := map[string]string{}
	maps.Copy(fresh, all)
	fresh[key] = value
	return fresh
}

// Contract says which changes of a table's schema are allowed. It has three settings: for new tables, new columns and
// wider types. If a stream has no setting, the pipeline's setting applies. If the pipeline has none either, the setting
// is evolve.
type Contract struct {
	At Pos
	schemas.Contract
}

func readContract(v value) Contract {
	c := Contract{At: v.pos()}
	part := func(to *schemas.Policy) func(value) {
		return choice(to, "evolve", "freeze", "discard_row", "discard_value")
	}
	v.mapping(fields{"tables": part(&c.Tables), "columns": part(&c.Columns), "types": part(&c.Types)})
	return c
}
