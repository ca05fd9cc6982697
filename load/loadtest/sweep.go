package loadtest

import (
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// sweep counts the rows that the pass has neither written nor found unchanged. It deletes them if s.Delete is set.
// Invariant 12
func (m *merge) sweep(s load.Sweep) error {
	if s.Table == "" {
		return nil
	}
	if err := m.m.at("sweep"); err != nil {
		return err
	}
	t := m.tables[s.Table]
	if t == nil {
		m.out.Known = true
		return nil
	}
	missing := m.missing(t, s)
	m.out.Missing = int64(len(missing))
	m.out.Known = m.out.Missing == 0 || m.pass.Whole || len(t.Key) == 0 || s.Keys != nil
	if err := m.list(t, missing, s.List); err != nil {
		return err
	}
	if s.Delete && m.out.Known {
		m.markDeleted(t, missing)
		m.out.Deleted = m.out.Missing
	}
	return nil
}

// missing returns the current rows that the pass has not read. If the sweep has keys, it returns the rows with these
// keys.
func (m *merge) missing(t *table, s load.Sweep) map[int]bool {
	named := map[string]bool{}
	for _, b := range s.Keys {
		for _, r := range RowsOf(b) {
			named[t.id(shape(r, b.Schema(), t.Columns))] = true
		}
	}
	out := map[int]bool{}
	left := map[string]int{}
	for i, r := range t.rows {
		if !t.isCurrent(r) {
			continue
		}
		m.out.Alive++
		gone := !m.has(t, r, left)
		if s.Keys != nil {
			gone = named[t.id(r)]
		}
		if gone && t.Mode != schemas.Append {
			out[i] = true
		}
	}
	return out
}

// The method has() reports whether the pass has read the row r. In a table without a key, equal rows cannot be
// distinguished. So if the pass has read n equal rows, the result is true for the first n calls with such a row. The
// parameter calls counts these calls by hash.
func (m *merge) has(t *table, r Row, calls map[string]int) bool {
	if len(t.Key) == 0 {
		hash := r[schemas.ColHash]
		calls[hash]++
		return calls[hash] <= m.kept[t.Name+hash]
	}
	id := t.Name + t.id(r)
	return r[schemas.ColRun] >= m.pass.Run || m.carried[id] || m.unchanged[id]
}

func (m *merge) list(t *table, places map[int]bool, n int) error {
	if n == 0 || len(places) == 0 || len(t.Key) == 0 {
		return nil
	}
	keys, err := load.Select(t.Columns, t.Key)
	if err != nil {
		return err
	}
	var rows []Row
	for i := range places {
		if len(rows) < n {
			rows = append(rows, t.rows[i])
		}
	}
	b, err := batchOf(keys, rows)
	if err != nil {
		return err
	}
	m.out.Keys = append(m.out.Keys, b)
	return nil
}

func (m *merge) markDeleted(t *table, places map[int]bool) {
	at := instant(m.when)
	gone := map[int]bool{}
	for i := range t.rows {
		if !places[i] {
			continue
		}
		r := t.rows[i]
		m.logDelete(t, r, at)
		switch {
		case len(t.Key) == 0:
			m.deleteEqual(t, i, at)
			gone[i] = t.Mode != schemas.History
		case t.Mode == schemas.History:
			m.end(t, i, at, at)
		case t.Mode == schemas.Replace:
			m.cut(t, r)
			gone[i] = true
		default:
			for c, j := range m.hanging(t, r) {
				c.rows[j] = c.rows[j].with(schemas.ColDeletedAt, at).with(schemas.ColSyncedAt, at)
			}
			t.rows[i] = r.with(schemas.ColDeletedAt, at).with(schemas.ColSyncedAt, at)
		}
	}
	t.remove(gone)
}

// deleteEqual deletes the child rows of a surplus row in a table without a key. The surplus row has the index i. It is
// not known which child rows belong to which of several equal rows. So deleteEqual deletes the child rows with the
// greatest link. In History, it deletes nothing: these child rows and the surplus row end at endTime.
func (m *merge) deleteEqual(t *table, i int, endTime string) {
	hash := t.rows[i][schemas.ColHash]
	end := func(r Row) Row {
		return r.with(schemas.ColValidTo, endTime).with(schemas.ColDeletedAt, endTime).with(schemas.ColSyncedAt, endTime)
	}
	for _, c := range m.descendants(t.Name) {
		last := c.lastLink(hash)
		places := map[int]bool{}
		twin := map[[2]string]bool{} // rows of another pass may have the same links
		for j, r := range c.rows {
			id := [2]string{r[schemas.ColParent], r[schemas.ColIndex]}
			if !c.isCurrent(r) || r[schemas.ColHash] != hash || r[load.RootKeyColumn(c.Columns)] != last || twin[id] {
				continue
			}
			twin[id] = true
			if c.Mode == schemas.History {
				c.rows[j] = end(r)
			} else {
				places[j] = true
			}
		}
		c.remove(places)
	}
	if t.Mode == schemas.History {
		t.rows[i] = end(t.rows[i])
	}
}

func (t *table) lastLink(hash string) (last string) {
	for _, r := range t.rows {
		if t.isCurrent(r) && r[schemas.ColHash] == hash {
			last = max(last, r[load.RootKeyColumn(t.Columns)])
		}
	}
	return last
}
