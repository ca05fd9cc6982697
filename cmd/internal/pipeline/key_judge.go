package pipeline

import (
	"bytes"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// keyJudge compares the records of a pass that have the same key.
type keyJudge struct {
	p     *pass
	clash clashes
}

// watch makes the mapper compare records with the same key. In the mode `append`, each version of a record is a row, so
// no record is lost and nothing is compared.
func (k *keyJudge) watch(m *transform.Mapper) {
	if k.p.keyed() && k.p.stream.Table.Mode != schemas.Append {
		m.CompareKeys(k.judge, k.p.run.limits.keySlots)
	}
}

// apart reports whether each record belongs to one request only, because the requests name a parent or a month. Then a
// record cannot move from one page to another while the list is read.
func (k *keyJudge) apart() bool { return k.p.stream.Parent != "" || k.p.stream.Months.Set() }

// judge decides between a changed record, a refuted key and an open question. // Invariant 11
func (k *keyJudge) judge(c transform.Clash) transform.ClashVerdict {
	seen, suspected := k.p.watch.suspects[c.Hash]
	switch {
	case (!c.SamePage || k.apart()) && k.changedMeanwhile(c.Record):
		return transform.ClashChanged
	case c.SamePage, k.apart(), suspected && seen < k.p.number:
		if k.clash.example == "" {
			k.clash.example, k.clash.record = c.Key, bytes.Clone(c.Record)
		}
		return transform.ClashRefuted
	case !suspected && len(k.p.watch.suspects) < maxSuspects:
		if k.p.watch.suspects == nil {
			k.p.watch.suspects = map[uint64]int{}
		}
		k.p.watch.suspects[c.Hash] = k.p.number
	}
	return transform.ClashOpen
}

func (k *keyJudge) changedMeanwhile(record []byte) bool {
	at, ok := extract.ChangedAt(record, k.p.stream.Incremental.Field)
	return ok && at.After(k.p.began.Add(-clockSlack)) && at.Before(k.p.run.Now().Add(clockSlack))
}

// doubt ends the pass if the key is perhaps not unique, and no table has rows with this key yet.
func (k *keyJudge) doubt(r transform.Repeats) error {
	if k.clash.lost, k.clash.open = r.Rejected, r.Open; k.apart() {
		k.clash.open += r.Changed // a record moved from one answer to another; other records may have moved without appearing in either
	}
	if k.p.watch.settled || k.p.watch.tried >= maxKeys || k.p.stream.Stated["key"] != "" || k.p.run.Options.DryRun {
		return nil
	}
	switch {
	case k.clash.lost > 0:
		return &keyError{key: k.p.stream.Key, example: k.clash.example, record: k.clash.record}
	case len(k.p.watch.suspects) > 0 && k.p.number == 1:
		return &keyError{key: k.p.stream.Key}
	}
	return nil
}
