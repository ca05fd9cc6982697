package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// A key is a hypothesis. Each pass compares records that have the same key but different content. Either the record
// changed while the list was read, or the key does not identify records and is refuted. The record's time of change
// or a second reading shows which of the two is true.

// maxKeys is the number of keys that a run tries for a stream. // Invariant 15
const maxKeys = 4

// otherKey ends a pass if the stream's key differs from the table's key. This happens if an earlier run chose the
// table's key, and the convention that the earlier run stored was lost.
func (p *pass) otherKey(tables []schemas.Table) error {
	i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == p.stream.Table.Name })
	if i < 0 || p.stream.Stated["key"] != "" || slices.Equal(tables[i].Key, p.stream.Key) || p.watch.tried >= maxKeys {
		return nil
	}
	key := append([]string{}, tables[i].Key...)
	for _, k := range p.stream.Key {
		if len(key) > 0 && !slices.Contains(key, k) {
			return nil
		}
	}
	return &keyError{key: p.stream.Key, table: key}
}

// widerKey returns the key with additional columns. First it tries values of the request, such as the parent or the
// month. Then it tries the place where the record was found, such as a stage or a group, and then the record's
// language. It returns nil if the record has none of these.
func widerKey(s schemas.Stream, record []byte) []string {
	for _, more := range [][]string{extract.ContextColumns(s), containerColumns(s, record), languageColumns(record)} {
		more = slices.DeleteFunc(more, func(c string) bool { return slices.Contains(s.Key, c) })
		if len(more) > 0 {
			return append(more, s.Key...)
		}
	}
	return nil
}

func containerColumns(s schemas.Stream, record []byte) []string {
	var r struct {
		Context map[string]json.RawMessage `json:"_context"`
	}
	if s.Context == "" || json.Unmarshal(record, &r) != nil {
		return nil
	}
	in, ok := r.Context[s.Context]
	if !ok {
		return nil
	}
	pointer := "/_context/" + s.Context
	var members map[string]json.RawMessage
	if json.Unmarshal(in, &members) != nil {
		return []string{schemas.Column(pointer)}
	}
	for _, name := range []string{"id", "key", "code", "slug", "name"} {
		if v, ok := members[name]; ok && string(v) != "null" {
			return []string{schemas.Column(pointer + "/" + name)}
		}
	}
	return nil
}

func languageColumns(record []byte) []string {
	for _, name := range []string{"language", "lang", "locale", "language_id", "lang_id", "language_code"} {
		if v := records.KeyOf(record, name); v != "" {
			return []string{schemas.Column("/" + name)}
		}
	}
	return nil
}

func haveKey(n int64) string {
	if n == 1 {
		return "1 record has the key"
	}
	return fmt.Sprintf("%d records have the key", n)
}

func (p *pass) noticeKey(c clashes) []drift.Notice {
	if c.lost == 0 {
		return nil
	}
	reason := fmt.Sprintf("%s of another record (%s = %s), and went to _penstock_rejects", haveKey(c.lost), strings.Join(p.stream.Key, ", "), c.example)
	switch wider := widerKey(p.stream, c.record); {
	case p.stream.Stated["key"] != "":
		reason += fmt.Sprintf("; the key of stream %s in pipelines.yaml is not unique", p.stream.Name)
	case len(wider) > 0:
		reason += fmt.Sprintf("; to load the table with the key %s, drop the table and run again", strings.Join(wider, ", "))
	default:
		reason += "; to load the table without a key, drop the table and run again"
	}
	return []drift.Notice{{Severity: drift.Warned, Kind: drift.NoticeKey, Table: p.stream.Table.Name, Reason: reason}}
}
