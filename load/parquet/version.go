package parquet

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// follow makes staged rows new versions of the rows that they match. A pass writes only one version of a record. So if
// the same pass wrote the matching row, the staged row replaces that row.
func (m *merge) follow(ctx context.Context, f *family, versions []int32) error {
	slices.SortFunc(versions, func(a, b int32) int {
		x, y := &f.supplied.rows[a], &f.supplied.rows[b]
		if x.seg.ID != y.seg.ID {
			return int(x.seg.ID - y.seg.ID)
		}
		return int(int64(x.row) - int64(y.row))
	})
	for len(versions) > 0 {
		seg := f.supplied.rows[versions[0]].seg
		n := 1
		for n < len(versions) && f.supplied.rows[versions[n]].seg == seg {
			n++
		}
		if err := m.followIn(ctx, f, seg, versions[:n]); err != nil {
			return err
		}
		versions = versions[n:]
	}
	return nil
}

func (m *merge) followIn(ctx context.Context, f *family, s *segment, versions []int32) error {
	columns := []string{schemas.ColRun}
	if f.t.Mode == schemas.History {
		columns = append(columns, schemas.ColValidFrom, schemas.ColValidTo)
	}
	return s.root().read(ctx, f.t, columns, func(first int64, c []arrow.Array, rows int) error {
		for len(versions) > 0 && int64(f.supplied.rows[versions[0]].row) < first+int64(rows) {
			i := versions[0]
			versions = versions[1:]
			r := &f.supplied.rows[i]
			at := int(int64(r.row) - first)
			run, _ := c[0].(*array.String)
			stands := r.have&deadMark == 0
			if stands && run.IsValid(at) && run.Value(at) >= m.spec.Run {
				r.outcome = replacing
				if len(c) > 1 {
					r.begin = instantAt(c[1], at)
				}
				continue
			}
			r.outcome = inserted
			e := edit{row: r.row, kind: logOnly, by: i}
			if f.t.Mode == schemas.History {
				r.begin = max(r.begin, instantAt(c[1], at), instantAt(c[2], at))
				if stands {
					e.kind, e.at = end, r.begin
				}
			}
			if e.kind == end || m.spec.Log {
				f.edit(s, e)
			}
		}
		return nil
	})
}

func instantAt(a arrow.Array, i int) int64 {
	if t, ok := a.(*array.Timestamp); ok && t.IsValid(i) {
		return int64(t.Value(i))
	}
	return -1 << 63
}
