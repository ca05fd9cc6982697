package loadtest

import (
	"errors"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

type stagedRow struct {
	row     Row
	ordinal int64
}

func (m *merge) roots(writes []write) error {
	if err := errors.Join(m.m.at("stage"), m.m.at("delete"), m.m.at("insert")); err != nil {
		return err
	}
	byTable := map[string][]stagedRow{}
	for _, w := range writes {
		if !load.Child(w.table.Columns) {
			for i, r := range w.rows {
				byTable[w.table.Name] = append(byTable[w.table.Name], stagedRow{r, w.ordinals[i]})
			}
		}
	}
	for name, rows := range byTable {
		slices.SortStableFunc(rows, func(a, b stagedRow) int { return int(a.ordinal - b.ordinal) })
		m.root(m.tables[name], rows)
	}
	return nil
}

func (m *merge) root(t *table, rows []stagedRow) {
	seen := map[string]int{}
	for _, h := range rows {
		seen[t.id(h.row)]++
	}
	for _, h := range rows {
		switch id := t.id(h.row); {
		case load.IsInternal(t.Name):
			t.replace(h.row)
		case len(t.Key) == 0:
			m.keyless(t, h)
		case seen[id] > 1: // a later row with this key follows
			seen[id]--
			m.out.Deduplicated++
		default:
			m.keyed(t, id, h)
		}
	}
}

func (m *merge) keyed(t *table, id string, h stagedRow) {
	i := t.find(id)
	if i < 0 {
		m.out.Written++
		m.out.Inserted++
		m.insert(t, h, "")
		m.log(t, actionInsert, nil, h.row)
		return
	}
	have := t.rows[i]
	alive := t.isCurrent(have)
	same := alive && have[schemas.ColHash] == h.row[schemas.ColHash]
	switch {
	case m.carried[t.Name+id] || m.unchanged[t.Name+id] || have[schemas.ColRun] >= m.pass.Run:
		m.out.Deduplicated++
	case same:
		m.out.Unchanged++
		m.unchanged[t.Name+id] = true
	default:
		m.out.Written++
		if !alive {
			m.out.Revived++
		}
	}
	if same {
		return
	}
	m.follow(t, i, h)
	action := actionUpdate
	if !alive {
		action = actionRevive
	}
	m.log(t, action, have, h.row)
}

func (m *merge) follow(t *table, i int, h stagedRow) {
	have := t.rows[i]
	again := have[schemas.ColRun] >= m.pass.Run && t.isCurrent(have) // the rows of a resumed pass have the id of a later run
	switch {
	case t.Mode == schemas.Append && !again:
		m.insert(t, h, "")
	case t.Mode == schemas.History && !again:
		from := laterOf(have[schemas.ColValidTo], have[schemas.ColValidFrom])
		if from = laterOf(h.row[schemas.ColSyncedAt], from); t.isCurrent(have) {
			m.end(t, i, from, "")
		}
		m.insert(t, h, from)
	default:
		m.cut(t, have)
		m.markWritten(t, h, have[schemas.ColValidFrom])
		t.rows[i] = h.row
	}
}

// insert adds a row. In History, the row is valid from the time in the parameter `start`. If `start` is "", the row is
// valid from its synced_at.
func (m *merge) insert(t *table, h stagedRow, start string) {
	m.markWritten(t, h, start)
	t.add(h.row)
}

func (m *merge) markWritten(t *table, h stagedRow, from string) {
	if t.Mode == schemas.History {
		if from == "" {
			from = h.row[schemas.ColSyncedAt]
		}
		h.row[schemas.ColValidFrom] = from
	}
	m.written[h.ordinal] = from
}

func (m *merge) end(t *table, i int, at, deleted string) {
	ended := func(r Row) Row {
		r = r.with(schemas.ColValidTo, laterOf(at, r[schemas.ColValidFrom])).with(schemas.ColSyncedAt, instant(m.when))
		if deleted != "" {
			r = r.with(schemas.ColDeletedAt, r[schemas.ColValidTo])
		}
		return r
	}
	for c, j := range m.hanging(t, t.rows[i]) {
		c.rows[j] = ended(c.rows[j])
	}
	t.rows[i] = ended(t.rows[i])
}

func (m *merge) keyless(t *table, h stagedRow) {
	hash := h.row[schemas.ColHash]
	m.kept[t.Name+hash]++
	if m.kept[t.Name+hash] <= t.count(hash) {
		m.out.Unchanged++
		return
	}
	m.insert(t, h, "")
	t.counts[hash]++
	m.out.Written++
	m.out.Inserted++
	m.log(t, actionInsert, nil, h.row)
}

// hanging iterates over the child rows of r. If the table keeps several rows per record, each of these rows has child
// rows of its own. In Append, the child rows of r are those that have the same run as r. In History, r must be a
// current row, and its child rows are the current child rows of the record.
func (m *merge) hanging(t *table, r Row) func(func(*table, int) bool) {
	link := t.plain(t.link(r))
	return func(yield func(*table, int) bool) {
		for _, c := range m.descendants(t.Name) {
			for i, cr := range c.rows {
				mine := t.plain(cr[load.RootKeyColumn(c.Columns)]) == link
				switch t.Mode {
				case schemas.Append:
					mine = mine && cr[schemas.ColRun] == r[schemas.ColRun]
				case schemas.History:
					mine = mine && c.isCurrent(cr)
				}
				if mine && !yield(c, i) {
					return
				}
			}
		}
	}
}

func (m *merge) cut(t *table, r Row) {
	gone := map[*table]map[int]bool{}
	for c, i := range m.hanging(t, r) {
		if gone[c] == nil {
			gone[c] = map[int]bool{}
		}
		gone[c][i] = true
	}
	for c, places := range gone {
		c.remove(places)
	}
}

func (t *table) remove(places map[int]bool) {
	var kept []Row
	for i, r := range t.rows {
		if !places[i] {
			kept = append(kept, r)
		}
	}
	t.rows = kept
	t.changed()
}

func (x *tx) descendants(name string) []*table {
	var out []*table
	for _, t := range x.tables {
		if load.IsChildOf(t.Table, name) {
			out = append(out, t)
		}
	}
	return out
}

func (m *merge) children(writes []write) error {
	if err := m.m.at("children"); err != nil {
		return err
	}
	for _, w := range writes {
		if !load.Child(w.table.Columns) {
			continue
		}
		t := m.tables[w.table.Name]
		for i, r := range w.rows {
			from, written := m.written[w.ordinals[i]]
			if !written {
				continue
			}
			if t.Mode == schemas.History {
				r = r.with(schemas.ColValidFrom, from)
			}
			t.rows = append(t.rows, r)
		}
	}
	return nil
}
