package pipeline

import (
	"encoding/json"
	"fmt"

	"github.com/penstock-data/penstock/state"
)

func (p position) backfill(name string) (position, error) {
	all, err := p.allBackfills()
	if err != nil || len(all[name]) == 0 {
		return position{}, err
	}
	return decodePosition(state.Cursor(all[name]))
}

func (p position) allBackfills() (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if p.backfills == "" {
		return all, nil
	}
	if err := json.Unmarshal([]byte(p.backfills), &all); err != nil {
		return nil, fmt.Errorf("read backfills %q: %w", p.backfills, err)
	}
	return all, nil
}

func (p *position) keep(name string, pos position) error {
	all, err := p.allBackfills()
	if err != nil {
		return err
	}
	all[name] = json.RawMessage(pos.encode())
	text, err := json.Marshal(all)
	p.backfills = string(text)
	return err
}
