package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

type parentState struct {
	passes     int64
	doubt      string
	allParents bool
	again      map[uint64]bool // ids of parents that the next pass must request even if they are unchanged
}

type parentage struct {
	entries []remembered
	passes  int64
	trusted bool // the table still has the rows of these parents
}

// remembered is one stored parent. It takes 24 bytes of memory.
type remembered struct {
	id    uint64
	print int64
	is    traits
}

type traits byte

const (
	listed traits = 1 << iota
	filled
	stale  // some of the parent's rows must be written again
	barren // a parent of this stream may have no rows
)

// recall reads which parents are stored. A parent is requested again if its rows were deleted or must be written
// again, or if a file of its rows is missing.
func (k *destinationRun) recall(ctx context.Context, p *pass, tables []schemas.Table) (*parentage, error) {
	m := &parentage{passes: k.passes}
	if err := k.entries(ctx, p, m); err != nil {
		return nil, err
	}
	if m.trusted = k.pos.Pass != "" && !k.allParents; !m.trusted {
		return m, nil
	}
	i := slices.IndexFunc(tables, func(t schemas.Table) bool { return t.Name == p.stream.Table.Name })
	if m.trusted = i >= 0 && tellsParents(tables[i], p.parents.context); !m.trusted {
		return m, nil
	}
	columns := append(slices.Clone(p.parents.context), schemas.ColHash, p.stream.Table.Mode.EndColumn())
	if k.files(p.stream) && tables[i].Columns.HasField(colPath) {
		columns = append(columns, colPath)
	}
	err := k.dest.Scan(ctx, p.stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		n := len(p.parents.context)
		context, hash, ended := b.Columns()[:n], b.Column(n), b.Column(n+1)
		for row := range int(b.NumRows()) {
			if !ended.IsNull(row) {
				continue
			}
			is := filled
			if len(columns) > n+2 && !k.folder.has(rowhash.Text(b.Column(n+2), row)) {
				is |= stale
			}
			if rowhash.Text(hash, row) == "" {
				is |= stale
			}
			m.mark(rowID(context, row), is)
		}
		return nil
	})
	return m, err
}

// entries reads the stored parents. It leaves out the parents that the pass k.doubt requested, because they must be
// requested again.
func (k *destinationRun) entries(ctx context.Context, p *pass, m *parentage) error {
	var is traits
	if !p.stream.Class.Single() {
		is = barren
	}
	err := k.parents(ctx, p, func(tuple string, print int64, pass string) {
		if pass != k.doubt {
			m.entries = append(m.entries, remembered{tupleID([]byte(tuple)), print, is})
		}
	})
	slices.SortFunc(m.entries, func(a, b remembered) int { return cmp.Compare(a.id, b.id) })
	return err
}

func (k *destinationRun) parents(ctx context.Context, p *pass, visit func(tuple string, print int64, pass string)) error {
	columns := []string{"pipeline", "stream", "parent", "print", "run"}
	return k.dest.Scan(ctx, load.Parents.Name, columns, func(b arrow.RecordBatch) error {
		texts := make([]*array.String, len(columns))
		for i, c := range b.Columns() {
			texts[i], _ = c.(*array.String)
		}
		prints, ok := b.Column(3).(*array.Int64)
		if !ok || texts[0] == nil || texts[1] == nil || texts[2] == nil || texts[4] == nil {
			return fmt.Errorf("%s has other column types than penstock gave it", load.Parents.Name)
		}
		for row := range int(b.NumRows()) {
			if texts[1].Value(row) == p.stream.Name && texts[0].Value(row) == p.Name && !prints.IsNull(row) {
				visit(texts[2].Value(row), prints.Value(row), texts[4].Value(row))
			}
		}
		return nil
	})
}

// tellsParents reports whether each row identifies its parent, in columns that store the values exactly as the source
// returned them.
func tellsParents(t schemas.Table, columns []string) bool {
	return !slices.ContainsFunc(columns, func(c string) bool {
		at := t.Columns.FieldIndices(c)
		if len(at) != 1 {
			return true
		}
		id := t.Columns.Field(at[0]).Type.ID()
		return id != arrow.INT64 && id != arrow.STRING
	})
}

// holds reports whether the parent is stored with this fingerprint and its rows are complete.
func (m *parentage) holds(id uint64, print int64) bool {
	m.mark(id, listed)
	i, ok := m.find(id)
	if !ok {
		return false
	}
	e := m.entries[i]
	return e.print == print && e.is&stale == 0 && e.is&(filled|barren) != 0
}

func (m *parentage) mark(id uint64, is traits) {
	if i, ok := m.find(id); ok {
		m.entries[i].is |= is
	}
}

func (m *parentage) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(m.entries, id, func(e remembered, id uint64) int { return cmp.Compare(e.id, id) })
}

func (m *parentage) lists(id uint64) bool {
	i, ok := m.find(id)
	return ok && m.entries[i].is&listed != 0
}

// valuesOf formats each value of a tuple as rowhash.Text does.
func valuesOf(tuple []byte) []string {
	var values []json.RawMessage
	if json.Unmarshal(tuple, &values) != nil {
		return []string{string(tuple)}
	}
	texts := make([]string, len(values))
	for i, v := range values {
		switch {
		case string(v) == "null":
		case v[0] == '"':
			_ = json.Unmarshal(v, &texts[i]) // cannot fail: it is a JSON string
		default:
			texts[i] = string(v)
		}
	}
	return texts
}

// idOf returns the id of a parent with these values. rowID must return the same id for a row of that parent.
func idOf(values []string) uint64 {
	var b []byte
	for _, v := range values {
		b = rowhash.AppendText(b, v)
	}
	return id(b)
}

func tupleID(tuple []byte) uint64 { return idOf(valuesOf(tuple)) }

func rowID(context []arrow.Array, row int) uint64 {
	var b []byte
	for _, a := range context {
		b = rowhash.AppendText(b, rowhash.Text(a, row))
	}
	return id(b)
}

func textID(text string) uint64 { return id([]byte(text)) }

// id returns a hash that is the same in every process, because it decides in which passes a parent is requested.
func id(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}
