package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
)

// adopt applies the convention to the stream. If the table exists already, its key does not change. So a key that
// probes found applies only to new tables.
func (st *streamRun) adopt(ctx context.Context) error {
	st.stream = st.known.Apply(st.origin)
	defer st.setRange()
	switch {
	case st.keyMayChange():
		return st.keepKey(ctx)
	case len(st.origin.Key) > 0 || len(st.stream.Key) == 0:
		return nil
	}
	learned := st.stream.Key
	st.stream.Key = st.run.keyOf(ctx, st.stream)
	if len(st.stream.Key) > 0 && !slices.Equal(st.stream.Key, learned) {
		return &ChangedError{Stream: st.stream.Name, Reason: fmt.Sprintf("the rows of %s are identified by %s, but the records seem to be identified by %s",
			st.stream.Table.Name, strings.Join(st.stream.Key, ", "), strings.Join(learned, ", "))}
	}
	return nil
}

// keyMayChange reports whether the stream's key may differ from that of its existing table.
func (st *streamRun) keyMayChange() bool {
	key := st.origin.Key
	return len(st.known.Dropped)+len(st.known.RefutedKeys) > 0 || len(key) > len(extract.WithoutContext(st.origin, key))
}

// keepKey is for a table whose key differs from that of the stream. It keeps the table's key in two cases: the source
// refuted this key after the table was made, or the stream's original key differs from it only by the columns of
// [extract.ContextColumns]. The run then rejects records that the kept key cannot distinguish. In other cases, keepKey
// returns a ChangedError if the source has refuted a key or a hypothesis of the stream.
func (st *streamRun) keepKey(ctx context.Context) error {
	want := st.stream.Key
	key, there := st.tableKey(ctx)
	if !there || slices.Equal(key, want) || st.origin.Stated["key"] != "" {
		return nil
	}
	simpler := slices.Equal(key, extract.WithoutContext(st.origin, st.origin.Key))
	if st.known.Refuted(key) || simpler && len(key) > 0 {
		st.stream.Key = key
		return nil
	}
	if len(st.known.Dropped)+len(st.known.RefutedKeys) == 0 {
		return nil
	}
	return &ChangedError{Stream: st.stream.Name, Reason: fmt.Sprintf("the rows of %s are identified by %s, but the records by %s. To load the table again, drop it and run again",
		st.stream.Table.Name, orNone(strings.Join(key, ", ")), orNone(strings.Join(want, ", ")))}
}

func (st *streamRun) tableKey(ctx context.Context) (key []string, there bool) {
	for _, d := range st.run.Destinations {
		tables, err := d.Tables(ctx, st.stream.Table.Name)
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == st.stream.Table.Name }); i >= 0 {
			return tables[i].Key, true
		}
	}
	return nil, false
}
