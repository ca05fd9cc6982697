package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

// In the tests, the members named secret have these values. The output must not contain them anywhere.
const (
	rawText   = "RAWVALUE"
	rawNumber = "9977553311"
)

func secretValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := []string{`"` + rawText + `"`, `"x ` + rawText + `"`, rawNumber, rawNumber + ".5", `"` + rawNumber + `"`, "null", "true", "[]", "{}", `""`}
		if depth > 0 {
			in := secretValue(depth - 1)
			kinds = append(kinds, "["+in.Draw(t, "a")+","+in.Draw(t, "b")+"]", `{"in":`+in.Draw(t, "c")+`}`, `[{"in":`+in.Draw(t, "d")+`}]`, `{"1":`+in.Draw(t, "e")+`}`)
		}
		return rapid.SampledFrom(kinds).Draw(t, "secret")
	})
}

func ruledRecord(id int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		object := func(depth int, more ...string) string {
			members := append([]string{`"n":` + rapid.SampledFrom([]string{"1", "2.50", `"x"`, "null", "[1]", "-0", `"2026-01-02"`}).Draw(t, "n")}, more...)
			if rapid.Bool().Draw(t, "has") {
				members = append(members, `"secret":`+secretValue(depth).Draw(t, "secret"))
			}
			return "{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + "}"
		}
		key := fmt.Sprint(id)
		if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
			key = rapid.SampledFrom([]string{"null", `"k"`, "[1]"}).Draw(t, "key")
		}
		twice := ""
		if rapid.IntRange(0, 19).Draw(t, "odd") == 0 {
			twice = `,"n":7,"n":7`
		}
		sub := `"sub":[` + object(1) + "," + object(0) + "]"
		items := `"items":[` + object(1, sub) + "," + object(1) + "]"
		deep := `"deep":{"a":{"b":` + object(1, `"c":`+object(0)) + `}}`
		record := object(2, `"id":`+key, items, deep, `"map":{"7":`+object(0)+`}`)
		return record[:len(record)-1] + twice + "}"
	})
}

func ruledPages(t *rapid.T) []string {
	var pages []string
	id := 0
	for range rapid.IntRange(1, 3).Draw(t, "pages") {
		var records []string
		for range rapid.IntRange(1, 4).Draw(t, "records") {
			id++
			records = append(records, ruledRecord(id).Draw(t, "record"))
		}
		pages = append(pages, "["+strings.Join(records, ",")+"]")
	}
	return pages
}

func someRules(t *rapid.T) schemas.Rules {
	policies := []schemas.Policy{schemas.Evolve, schemas.DiscardRow, schemas.DiscardValue}
	rules := schemas.Rules{
		MaskKey: "0123456789abcdef",
		Masks:   masks("secret", rapid.SampledFrom([]string{"drop", "hmac", "hash", "redact", "email", "partial", "round"}).Draw(t, "mask")),
		Contract: schemas.Contract{Tables: rapid.SampledFrom(policies).Draw(t, "tables"), Columns: rapid.SampledFrom(policies).Draw(t, "columns"),
			Types: rapid.SampledFrom(policies).Draw(t, "types")},
	}
	if rapid.Bool().Draw(t, "filters") {
		rules.Filter = []schemas.Condition{{Column: "n", NotIn: []string{"1", "x"}}}
	}
	if rapid.Bool().Draw(t, "filters on the secret") {
		yes := false
		rules.Filter = append(rules.Filter, schemas.Condition{Column: "secret", Null: &yes})
	}
	if rapid.Bool().Draw(t, "masks the key") {
		rules.Masks = append(rules.Masks, masks("id", "hash")...)
	}
	return rules
}

// run maps and shapes the pages. If together is true, it flushes once at the end. Otherwise it flushes after each
// page.
func run(t *rapid.T, s schemas.Stream, known []schemas.Table, pages []string, together bool) (out shaped, fetched, refused int64) {
	m := NewMapper(s, testStamp, known)
	defer m.Close()
	sh, err := NewShaper(m, false)
	require.NoError(t, err)
	for i, page := range pages {
		require.NoError(t, appendAll(m, []byte(page)))
		if together && i < len(pages)-1 {
			continue
		}
		batches, rejects := m.Flush()
		out.rejects = append(out.rejects, rejects...)
		batches, rejects, err := sh.Shape(batches)
		require.NoError(t, err)
		out.batches = append(out.batches, batches...)
		out.rejects = append(out.rejects, rejects...)
	}
	out.filtered, out.rejected = sh.Filtered(), sh.Rejected()
	return out, m.Fetched(), m.Rejected()
}

func (s shaped) everything() string {
	var b strings.Builder
	for _, t := range s.batches {
		for i, f := range t.Batch.Schema().Fields() {
			fmt.Fprintln(&b, t.Table.Name, f, lines(t.Batch.Column(i)))
		}
	}
	for _, r := range s.rejects {
		fmt.Fprintf(&b, "%+v\n", r)
	}
	return b.String()
}

func (s shaped) hashesByOrdinal() map[int64]string {
	all := map[int64]string{}
	for _, b := range s.batches {
		if b.Table.Name != "t" {
			continue
		}
		at := b.Batch.Schema().FieldIndices
		hash, ordinal := b.Batch.Column(at(schemas.ColHash)[0]).(*array.String), b.Batch.Column(at(schemas.ColOrdinal)[0]).(*array.Int64)
		for row := range hash.Len() {
			all[ordinal.Value(row)] = hash.Value(row)
		}
	}
	return all
}

func (s shaped) rows(table string) (n int64) {
	for _, b := range s.batches {
		if b.Table.Name == table {
			n += b.Batch.NumRows()
		}
	}
	return n
}

func TestShaperProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := ruledStream(someRules(t))
		if rapid.Bool().Draw(t, "keyless") {
			s.Key = nil
			s.Rules.Masks = s.Rules.Masks[:1]
		}
		var known []schemas.Table
		if rapid.Bool().Draw(t, "loaded before") {
			open := s
			open.Rules = schemas.Rules{Masks: s.Rules.Masks, MaskKey: s.Rules.MaskKey}
			before, _, _ := run(t, open, nil, ruledPages(t), true)
			known = tablesOf(before)
			before.release()
		}
		pages := ruledPages(t)
		out, fetched, refused := run(t, s, known, pages, false)
		defer out.release()

		seen := out.everything()
		require.NotContains(t, seen, rawText)
		require.NotContains(t, seen, rawNumber)
		require.Equal(t, fetched, out.rows("t")+refused+out.filtered+out.rejected, "counts")

		again, _, _ := run(t, s, known, pages, false)
		defer again.release()
		require.Equal(t, seen, again.everything(), "deterministic")

		together, _, _ := run(t, s, known, pages, true)
		defer together.release()
		require.NotContains(t, together.everything(), rawText)
		require.NotContains(t, together.everything(), rawNumber)
		require.Equal(t, out.filtered, together.filtered)
		require.Equal(t, out.rejected, together.rejected)
		require.Equal(t, out.hashesByOrdinal(), together.hashesByOrdinal(), "the division of pages into batches changes no hash")

		for _, r := range out.rejects {
			if r.Record && HasWholeRecord(r.Reason) {
				require.Contains(t, strings.Join(pages, ""), r.Raw)
			}
		}
	})
}

func TestShaperWithoutRulesDoesNothing(t *testing.T) {
	evolve := schemas.Contract{Tables: schemas.Evolve, Columns: schemas.Evolve, Types: schemas.Evolve}
	for _, rules := range []schemas.Rules{{}, {Contract: evolve}, {Masks: masks("nowhere", "hash"), Contract: evolve}} {
		s := contactStream()
		s.Rules = rules
		m := NewMapper(s, testStamp, nil)
		sh, err := NewShaper(m, true)
		require.NoError(t, err)
		require.NoError(t, appendAll(m, contacts(1, 10)[0]))
		batches, _ := m.Flush()
		same, rejects, err := sh.Shape(batches)
		require.NoError(t, err)
		require.Empty(t, rejects)
		require.Equal(t, batches, same)
		require.Zero(t, testing.AllocsPerRun(10, func() { _, _, _ = sh.Shape(batches) }))
		mapped{batches: batches}.release()
		m.Close()
	}
}

func onAnyPages(t *testing.T, action string, pages ...string) {
	s := schemas.Stream{Table: schemas.Table{Name: "t"}, Name: "m.t", Rules: schemas.Rules{Masks: masks("*", action)}}
	m := NewMapper(s, testStamp, nil)
	defer m.Close()
	sh, err := NewShaper(m, false)
	require.NoError(t, err)
	for _, page := range pages {
		_ = appendAll(m, []byte(page))
	}
	batches, _ := m.Flush()
	batches, _, err = sh.Shape(batches)
	require.NoError(t, err)
	out := shaped{mapped: mapped{batches: batches}}
	defer out.release()
	require.Equal(t, m.Fetched(), out.rows("t")+m.Rejected(), "%q", pages)
}

var anyAction = []string{"drop", "hash", "redact", "partial", "round"}

func TestShaperOnTheCorpus(t *testing.T) {
	for _, action := range anyAction {
		for _, pages := range corpus {
			onAnyPages(t, action, pages...)
		}
	}
}

func FuzzShaper(f *testing.F) {
	for i, pages := range corpus {
		f.Add(i, strings.Join(pages, ""))
	}
	f.Fuzz(func(t *testing.T, action int, page string) {
		onAnyPages(t, anyAction[uint(action)%uint(len(anyAction))], page, page)
	})
}
