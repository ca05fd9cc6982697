package sandbox

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (s *Server) change(route string, t target, c credential, p params, body object) reply {
	x, known := s.writes[route]
	if !known {
		x.dialect = s.dialectOf(t, nil)
	}
	if !c.writes {
		return x.dialect.fail(&refusal{kind: readOnlyKey})
	}
	if lacking := missingIn(body, x.required); lacking != nil {
		return x.dialect.fail(&refusal{kind: invalid, fields: lacking})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := p[x.id]
	do := x.do
	if do == save {
		do = update
		if id == "" {
			do = create
		}
	}
	switch do {
	case create:
		return x.made(s.world.create(x, p, body))
	case update, remove, convert:
		row, ok := s.world.table(x.table).find(id)
		if !ok {
			what := strings.ReplaceAll(strings.TrimSuffix(x.table, "s"), "_", " ")
			return x.dialect.fail(&refusal{kind: missing, what: strings.ToUpper(what[:1]) + what[1:]})
		}
		return x.done(do, s.world.alter(x, do, row, body))
	}
	return x.dialect.succeed("Saved successfully", http.StatusOK, "")
}

func missingIn(body object, needs string) []string {
	var lacking []string
	for _, name := range strings.Fields(needs) {
		if body.text(name) == "" {
			lacking = append(lacking, name)
		}
	}
	return lacking
}

// now returns the time in the sandbox. Each change advances it by a minute, so the same changes give the same data.
func (w *world) now() time.Time { return epoch.Add(time.Duration(w.version+1) * time.Minute) }

func (w *world) create(x write, p params, body object) object {
	t := w.table(x.table)
	row := object{}
	if len(t.rows) > 0 {
		row = slices.Clone(t.rows[len(t.rows)-1])
	}
	var id any = t.next
	if prefix, _, ok := strings.Cut(row.text("id"), "_"); ok {
		id = fmt.Sprintf("%s_new%d", prefix, t.next)
		t.next++
	}
	row = blank(row).put("id", id)
	if x.link != "" {
		row = row.put(x.link, decodeText(p[x.link]))
	}
	row = fill(row, body)
	for _, name := range []string{"created_at", "updated_at"} {
		if _, ok := row.lookup(name); ok {
			row = row.put(name, iso(w.now()))
		}
	}
	if _, ok := row.lookup("created"); ok {
		row = row.put("created", int(w.now().Unix()))
	}
	t.add(row)
	t.remember(row.text("id"), nil)
	w.version++
	w.notifyChange(x.table, "created", row)
	return row
}

// blank clears members that a person fills in. It keeps references, codes and amounts.
func blank(row object) object {
	for i := range row {
		switch row[i].name {
		case "email", "phone", "mobile_no", "notes", "note", "description", "reference_number":
			row[i].value = nil
		case "tags":
			row[i].value = list{}
		}
	}
	return row
}

func decodeText(text string) any {
	n := 0
	if _, err := fmt.Sscanf(text, "%d", &n); err == nil && fmt.Sprint(n) == text {
		return n
	}
	return text
}

func fill(row, body object) object {
	for _, m := range body {
		if _, ok := row.lookup(m.name); ok && m.name != "id" {
			row = row.put(m.name, m.value)
		}
	}
	return row
}

func (w *world) alter(x write, do changeKind, row, body object) object {
	w.version++
	t := w.table(x.table)
	if do == remove {
		t.remove(row.text("id"))
		w.notifyChange(x.table, "deleted", row)
		return row
	}
	changed := fill(slices.Clone(row), body)
	for _, m := range x.sets {
		changed = changed.put(m.name, m.value)
	}
	if _, ok := changed.lookup("updated_at"); ok {
		changed = changed.put("updated_at", iso(w.now()))
	}
	if do != convert {
		t.put(changed)
		w.notifyChange(x.table, x.eventAction(), changed)
		return changed
	}
	made := w.create(write{table: x.newTable}, nil, changed)
	changed = changed.put(x.backLink, made.get("id"))
	t.put(changed)
	w.notifyChange(x.table, "converted", changed)
	return made
}

func (x write) eventAction() string {
	return cmp.Or(x.action, x.sets.text("status"), "updated")
}

func (x write) made(row object) reply {
	return x.dialect.succeed("Created successfully", http.StatusCreated, row)
}

func (x write) done(do changeKind, row object) reply {
	says := map[changeKind]string{update: "Updated successfully", remove: "Deleted successfully", convert: "Converted successfully"}[do]
	if do == remove {
		if x.dialect == dV2 {
			return x.dialect.succeed(says, http.StatusOK, obj("id", row.get("id"), "object", row.get("object"), "deleted", true))
		}
		return x.dialect.succeed(says, http.StatusOK, "")
	}
	return x.dialect.succeed(says, http.StatusOK, row)
}

func (d dialect) succeed(says string, status int, data any) reply {
	switch d {
	case dV2:
		r := jsonReply(status, nil)
		r.body = utf8Style.append(nil, data)
		return r
	case d0:
		return jsonReply(status, obj("data", data))
	}
	if row, ok := data.(object); ok {
		data = obj("id", row.get("id"))
	}
	return jsonReply(http.StatusOK, d.wrap(says, served{data: data}))
}

func (s *Server) shift(t target, f Fault) {
	e := s.endpoints[t.method+" "+t.template]
	if e == nil || e.from == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.world.table(e.from).rows
	if len(rows) == 0 {
		return
	}
	if f.Delete {
		row := rows[s.drift.IntN(len(rows))]
		s.world.alter(write{table: e.from}, remove, row, nil)
		return
	}
	s.world.create(write{table: e.from}, nil, nil)
}

// Touch changes a random share of the records, and returns the number of changed records.
func (s *Server) Touch(fraction float64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.contacts != nil {
		return s.contacts.touch(fraction, s.drift, func(number int) { s.announceContact(number, 0) })
	}
	touched := 0
	for _, name := range s.world.names() {
		for _, row := range s.world.table(name).rows {
			if _, ok := row.lookup("updated_at"); ok && s.drift.Float64() < fraction {
				s.world.alter(write{table: name}, update, row, visibleChange(row))
				touched++
			}
		}
	}
	return touched
}

func visibleChange(row object) object {
	for _, name := range []string{"name", "title", "subject", "description", "notes"} {
		if text, ok := row.get(name).(string); ok {
			return obj(name, text+" ✎")
		}
	}
	return nil
}
