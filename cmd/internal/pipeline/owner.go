package pipeline

import (
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// CheckOwner checks that the stream with the key k owns the table, and that the source still has the address from which
// earlier passes have read. Otherwise it returns a [*load.OwnerError]. If several sources share the table, no address
// is stored with the table, and CheckOwner uses the address in the cursor. // Invariant 13
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

// displaced returns why this cannot be the table that the cursor describes, or "" if it can be. An empty table is
// accepted if no earlier pass has found records.
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
