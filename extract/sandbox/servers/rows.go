package servers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type row struct {
	n       int // unique
	id      int
	version int
	at      int // time of its last change, in minutes after epoch
	unkeyed bool
}

var epoch = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// mark identifies one version of one record. Tests compare the marks in the loaded table with the marks in Truth.
func mark(r row) string { return fmt.Sprintf("record %d version %d", r.n, r.version) }

const markField = "remark"

func (s Records) initialRows() []row {
	rows := make([]row, s.Count)
	for i := range rows {
		rows[i] = row{n: i, id: i, at: 7 * i}
	}
	for i := range min(s.Twice, s.Count/2) {
		rows[s.Count-1-i].id = rows[i].id
	}
	return rows
}

func (s Records) sort(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int {
		switch s.Order {
		case OrderNewest:
			return b.n - a.n
		case OrderChange:
			return b.at - a.at
		}
		return a.n - b.n
	})
}

func (s Records) id(n int) any {
	h := uint64(n+1) * 0x9E3779B97F4A7C15
	switch s.Type {
	case TypeText:
		return fmt.Sprintf("cus_%04d%06x", n, h>>40)
	case TypeUUID:
		return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", h>>32, h>>16&0xffff, h>>4&0xfff, h>>8&0xfff, h>>16)
	}
	return 1000 + 7*n
}

func (s Records) idText(n int) string {
	switch id := s.id(n).(type) {
	case int:
		return strconv.Itoa(id)
	case string:
		return id
	}
	return ""
}

func moment(minutes int) string {
	return epoch.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
}

var names = []string{"Ada", "Bruno", "Chloe", "Dario", "Elif", "Farid", "Greta"}

func (s Records) fields(r row) map[string]any {
	f := map[string]any{
		"name":   names[(r.n+1000)*5%len(names)],
		"amount": float64((r.n+1000)*37%1000) + 0.5, "status": []string{"open", "won", "lost"}[(r.n+999)%3], markField: mark(r),
	}
	if s.Odd != "" && s.Odd != OddID {
		f["note"] = raw(`"plain"`)
		if r.n == s.Count/2 {
			f["note"] = odd(s.Odd)
		}
	}
	if s.Names {
		f["name"] = fmt.Sprintf("%s %d", f["name"], r.n)
	}
	if s.Times {
		f["created_at"], f["updated_at"] = moment(7*r.n), moment(r.at)
	}
	return f
}

func (s Records) record(r row) any {
	f := s.fields(r)
	switch s.Form {
	case FormAttributes:
		return map[string]any{"type": "customers", s.Key: s.id(r.id), "attributes": f}
	case FormKeyed:
		return f
	}
	if s.Key != "" {
		f[s.Key] = s.id(r.id)
	}
	if r.unkeyed || s.Odd == OddID && r.n == s.Count/2 {
		f[s.Key] = nil
	}
	if s.Form == FormWrapped {
		return map[string]any{"customer": f}
	}
	return f
}

func (s Records) list(rows []row, from int) any {
	switch {
	case s.Form == FormKeyed || s.Form == FormNumbered:
		return s.object(rows)
	case s.Form == FormOne && len(rows) > 0:
		return s.record(rows[0])
	}
	all := make([]any, 0, len(rows))
	for i, r := range rows {
		if at := from + i; s.Nulls > 0 && at%7 == 3 && at/7 < s.Nulls {
			all = append(all, nil)
		}
		all = append(all, s.record(r))
	}
	return all
}

func (s Records) object(rows []row) any {
	if len(rows) == 0 {
		return []any{}
	}
	b := []byte{'{'}
	for i, r := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, asJSON(s.idText(r.id))...), ':')
		b = append(b, asJSON(s.record(r))...)
	}
	return json.RawMessage(append(b, '}'))
}

func (l *List) hides(r row) bool {
	from := l.spec.Size.Default * 3 / 2
	return r.n >= from && r.n < from+l.spec.Records.Hidden
}

func (l *List) shown(rows []row) []row {
	if l.spec.Records.Hidden == 0 {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), l.hides)
}

// rawTab is a placeholder in an encoded body, because the encoder would escape a tab. At the end, a text with a raw tab
// replaces it.
const rawTab = "a raw tab"

func odd(kind string) json.RawMessage {
	switch kind {
	case OddSurrogate:
		return raw(`"half a \ud83d"`)
	case OddDeep:
		return raw(strings.Repeat("[", 201) + strings.Repeat("]", 201))
	}
	return asJSON(rawTab)
}

func (l *List) edit(e Edits) {
	for i := range min(e.Delete, len(l.rows)) {
		at := (i*5 + 1) % len(l.rows)
		l.rows = slices.Delete(l.rows, at, at+1)
	}
	for i := range min(e.Change, len(l.rows)) {
		l.change((i*3 + 2) % len(l.rows))
	}
	l.insert(e.Insert)
	l.swap(e.Swap)
	for i := range min(e.Unkey, len(l.rows)/2) {
		l.rows[len(l.rows)/2+i].unkeyed = true
	}
	for i := range min(e.Rekey, len(l.rows)/2) {
		l.rows[len(l.rows)-1-i].id = l.rows[i].id
	}
}

func (l *List) leaveOut(all []row) []row {
	for i, f := range l.spec.Faults {
		if row := f.Row; f.Kind == FaultLeftOut && row <= len(all) && l.applies(i, part{from: row - 1, to: row}) {
			all = slices.Delete(slices.Clone(all), row-1, min(row-1+max(f.Rows, 1), len(all)))
		}
	}
	return all
}

func (l *List) since(q request, all []row) []row {
	at, err := time.Parse(time.RFC3339, q.values[l.spec.Reader.Since])
	if l.spec.Reader.Since == "" || err != nil {
		return all
	}
	minutes := int(at.Sub(epoch) / time.Minute)
	return slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r.at < minutes })
}

func (l *List) change(at int) {
	l.clock += 3
	l.rows[at].version++
	l.rows[at].at = l.clock
}

func (l *List) insert(n int) {
	for range n {
		l.clock += 3
		l.rows = append(l.rows, row{n: l.newest, id: l.newest, at: max(l.clock, 7*l.newest)})
		l.clock = max(l.clock, 7*l.newest)
		l.newest++
	}
}

func (l *List) move(m Move) {
	for range m.Count {
		l.spec.Records.sort(l.rows)
		switch {
		case m.Kind == MoveInsertFirst && l.spec.Records.Order == OrderOldest:
			l.before--
			l.rows = append(l.rows, row{n: l.before, id: l.before, at: l.clock})
		case m.Kind == MoveInsertFirst, m.Kind == MoveInsertLast:
			l.insert(1)
		case len(l.rows) == 0:
		case m.Kind == MoveDeleteFirst:
			l.rows = l.rows[1:]
		case m.Kind == MoveDeleteLast:
			l.rows = l.rows[:len(l.rows)-1]
		case m.Kind == MoveChange:
			l.change(len(l.rows) / 2)
		}
		l.observe()
	}
}

// Truth has the marks of the records that a run may find. A mark is a text in a record that identifies the record and
// its version.
type Truth struct {
	Now    []string `json:"now"`    // marks of the records in the list now
	Always []string `json:"always"` // marks of the records that were in the list since the run began, unchanged
	Ever   []string `json:"ever"`   // marks of the records that were in the list at any time since the run began
}

func (l *List) observe() {
	now := map[string]bool{}
	for _, m := range l.marks() {
		now[m], l.ever[m] = true, true
	}
	for m := range l.always {
		if !now[m] {
			delete(l.always, m)
		}
	}
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
