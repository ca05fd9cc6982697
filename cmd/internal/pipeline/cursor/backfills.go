package cursor

import (
	"encoding/json"
	"fmt"

	"github.com/penstock-data/penstock/state"
)

// Backfill returns the position of the backfill with this name.
func (p Position) Backfill(name string) (Position, error) {
	all, err := p.allBackfills()
	if err != nil || len(all[name]) == 0 {
		return Position{}, err
	}
	return Decode(state.Cursor(all[name]))
}

func (p Position) allBackfills() (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if p.Backfills == "" {
		return all, nil
	}
	if err := json.Unmarshal([]byte(p.Backfills), &all); err != nil {
		return nil, fmt.Errorf("read backfills %q: %w", p.Backfills, err)
	}
	return all, nil
}

// SetBackfill stores the position of the backfill with this name.
func (p *Position) SetBackfill(name string, pos Position) error {
	all, err := p.allBackfills()
	if err != nil {
		return err
	}
	all[name] = json.RawMessage(pos.Encode())
	b, err := json.Marshal(all)
	p.Backfills = text(b)
	return err
}
