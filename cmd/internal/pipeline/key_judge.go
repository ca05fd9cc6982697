package pipeline

import (
	"bytes"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// watchKey makes the mapper compare records with the same key. In mode append each version of a record is a row, so
// no record is lost and nothing is compared.
func (rd *reader) watchKey() {
	if rd.p.keyed() && rd.p.stream.Table.Mode != schemas.Append {
		rd.mapper.CompareKeys(rd.judge, rd.p.limits.keySlots)
	}
}

// apart reports whether a record can appear in only one answer. Then the same record on two pages was not moved by
// paging.
func (rd *reader) apart() bool { return rd.p.stream.Parent != "" || rd.p.stream.Months.Set() }

// judge decides between a changed record, a refuted key and an open question. // Invariant 11
func (rd *reader) judge(c transform.Clash) transform.ClashVerdict {
	seen, suspected := rd.p.watch.suspects[c.Hash]
	switch {
	case (!c.SamePage || rd.apart()) && rd.changedMeanwhile(c.Record):
		return transform.ClashChanged
	case c.SamePage, rd.apart(), suspected && seen < rd.p.number:
		if rd.clash.example == "" {
			rd.clash.example, rd.clash.record = c.Key, bytes.Clone(c.Record)
		}
		return transform.ClashRefuted
	case !suspected && len(rd.p.watch.suspects) < maxSuspects:
		if rd.p.watch.suspects == nil {
			rd.p.watch.suspects = map[uint64]int{}
		}
		rd.p.watch.suspects[c.Hash] = rd.p.number
	}
	return transform.ClashOpen
}

func (rd *reader) changedMeanwhile(record []byte) bool {
	at, ok := extract.ChangedAt(record, rd.p.stream.Incremental.Field)
	return ok && at.After(rd.p.began.Add(-clockSlack)) && at.Before(rd.p.Now().Add(clockSlack))
}

// doubtKey ends the pass if the key may not be unique and no table has rows with that key yet.
func (rd *reader) doubtKey() error {
	r := rd.mapper.Repeats()
	if rd.clash.lost, rd.clash.open = r.Rejected, r.Open; rd.apart() {
		rd.clash.open += r.Changed // a record moved from one answer to another; other records may have moved without appearing in either
	}
	if rd.p.watch.settled || rd.p.watch.tried >= maxKeys || rd.p.stream.Stated["key"] != "" || rd.p.Options.DryRun {
		return nil
	}
	switch {
	case rd.clash.lost > 0:
		return &keyError{key: rd.p.stream.Key, example: rd.clash.example, record: rd.clash.record}
	case len(rd.p.watch.suspects) > 0 && rd.p.number == 1:
		return &keyError{key: rd.p.stream.Key}
	}
	return nil
}
