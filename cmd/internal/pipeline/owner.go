package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (c *Config) claim(s schemas.Stream) load.Claim {
	return load.Claim{Table: s.Table.Name, Origin: c.Origins[s.Name]}
}

func (c *Config) pass(s schemas.Stream, id string, whole bool) load.Pass {
	return load.Pass{Run: id, Whole: whole, Log: c.Log[s.Name], Now: c.Now, Claim: c.claim(s)}
}

// OncePass returns a pass over s that is one transaction and reads no list. Its rows have this run id.
func (c *Config) OncePass(s schemas.Stream, id string) load.Pass {
	p := c.pass(s, id, true)
	p.Once = true
	return p
}

// CheckOwner checks that k's stream owns the table, and that the source still has the address that earlier passes
// have read. Otherwise it returns a [*load.OwnerError]. A table that several sources share is stored without an
// address; then the address in the cursor is checked. // Invariant 13
func CheckOwner(c load.Claim, k state.Key, stored state.Cursor, at load.StreamState) error {
	pos, err := cursor.Decode(stored)
	if err != nil {
		return err
	}
	have := at.Owner
	if have != nil && have.Origin == (load.Origin{}) && pos.Address != "" {
		of := *have
		of.Origin = load.Origin{Source: c.Source, Address: pos.Address}
		have = &of
	}
	k.Source = ""
	_, _, err = c.Owned(k, stored, have)
	return err
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

// displaced returns why the table cannot be the one that the cursor belongs to; "" if it can be. An empty table is
// accepted if the passes up to the cursor found no records.
func displaced(p cursor.Position, table string, at load.StreamState) string {
	last := max(p.Pass, p.TouchedBy, p.LastWhole())
	some := p.Longest > 0 || p.MidPass()
	switch {
	case p.Pass == "":
		return ""
	case len(at.Gone) > 0:
		return fmt.Sprintf("%s does not exist any more", strings.Join(at.Gone, ", "))
	case some && at.Empty:
		return fmt.Sprintf("%s has no rows, but had some after the last pass", table)
	case some && at.Made > last:
		return fmt.Sprintf("%s was created after the last pass, by run %s", table, at.Made)
	}
	return ""
}

// inPlace reports whether the table is the one that the last pass wrote. If it is not, the stream must be read
// from the beginning.
func (k *destinationRun) inPlace(ctx context.Context, st *streamRun) (bool, error) {
	table := st.stream.Table.Name
	at, err := k.dest.StreamState(ctx, k.key, table)
	if err != nil {
		return false, err
	}
	if err := CheckOwner(st.claim(st.stream), k.key, k.stored, at); err != nil {
		return false, err
	}
	why := displaced(k.main, table, at)
	if why == "" {
		return true, nil
	}
	st.noticed = append(st.noticed, drift.Notice{Severity: drift.Warned, Kind: drift.NoticeTable, Table: table, Reason: why + ": the stream is read from the beginning"})
	return false, nil
}
