package loadtest

import (
	"encoding/json"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Actions in a row of [load.RowChanges].
const (
	actionInsert = "insert"
	actionUpdate = "update"
	actionDelete = "delete"
	actionRevive = "revive"
)

func (m *merge) log(t *table, action string, before, after Row) {
	m.logAt(t, action, before, after, after[schemas.ColSyncedAt])
}

func (m *merge) logDelete(t *table, before Row, at string) {
	m.logAt(t, actionDelete, before, nil, at)
}

func (m *merge) logAt(t *table, action string, before, after Row, at string) {
	if !m.pass.Log {
		return
	}
	r := Row{
		"run": m.pass.Run, "pipeline": m.key.Pipeline, "stream": m.key.Stream, "table": t.Name, "at": at, "action": action,
	}
	some := before
	if after != nil {
		some = after
		r["after"] = t.document(after)
	}
	if before != nil {
		r["before"] = t.document(before)
	}
	r["key"] = t.keyJSON(some)
	if len(t.Key) == 0 {
		r["key"] = some[schemas.ColHash]
	}
	x := m.own(load.RowChanges)
	x.rows = append(x.rows, r)
}

func (t *table) document(r Row) string {
	var members []string
	for _, f := range t.Columns.Fields() {
		if strings.HasPrefix(f.Name, load.Prefix) {
			continue
		}
		text, ok := r[f.Name]
		value := jsonOf(text, schemas.TypeOf(f), ok)
		if !json.Valid([]byte(value)) {
			value = quote(text) // a JSON column may hold invalid JSON
		}
		members = append(members, quote(f.Name)+":"+value)
	}
	return "{" + strings.Join(members, ",") + "}"
}
