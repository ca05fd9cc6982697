package transform

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func contracted(t *testing.T, c schemas.Contract) (schemas.Stream, []schemas.Table) {
	s := ruledStream(schemas.Rules{Contract: c})
	first := shape(t, s, nil, `[{"id":1,"n":5,"d":1.25,"when":"2026-01-01T00:00:00Z","b":true,"s":"x","l":[1],"items":[{"a":1}]}]`)
	return s, tablesOf(first)
}

const (
	freeze       = schemas.Freeze
	discardRow   = schemas.DiscardRow
	discardValue = schemas.DiscardValue
)

func TestContractTypes(t *testing.T) {
	const page = `[{"id":1,"n":7},{"id":2,"n":"seven"},{"id":3,"n":"8"},{"id":4,"n":9.0},{"id":5,"n":9.5},{"id":6,"n":null},{"id":7,"n":[1]},{"id":8,"n":[]},{"id":9,"n":{"z":null}}]`

	s, known := contracted(t, schemas.Contract{Types: discardValue})
	out := shape(t, s, known, page)
	require.NoError(t, out.err)
	require.Equal(t, "7 null 8 9 null null null null null", out.column("t", "n"))
	require.Equal(t, []Reject{
		{Stream: "m.t", Stage: StageContract, ID: "2", Ordinal: 1, Key: "2", Pointer: "/n", Wanted: "int64", Raw: `"seven"`, Reason: "the contract keeps the column n of t as int64"},
		{Stream: "m.t", Stage: StageContract, ID: "5", Ordinal: 4, Key: "5", Pointer: "/n", Wanted: "int64", Raw: `9.5`, Reason: "the contract keeps the column n of t as int64"},
		{Stream: "m.t", Stage: StageContract, ID: "7", Ordinal: 6, Key: "7", Pointer: "/n", Wanted: "int64", Raw: `[1]`, Reason: "the contract keeps the column n of t as int64"},
	}, out.rejects)
	require.Zero(t, out.rejected)

	s.Rules.Contract.Types = discardRow
	out = shape(t, s, known, page)
	require.Equal(t, "1 3 4 6 8 9", out.column("t", "id"))
	require.Equal(t, "7 8 9 null null null", out.column("t", "n"))
	require.EqualValues(t, 3, out.rejected)
	require.Equal(t, Reject{Stream: "m.t", Stage: StageContract, ID: "5", Ordinal: 4, Key: "5", Wanted: "int64", Raw: `{"id":5,"n":9.5}`,
		Reason: "the contract keeps the column n of t as int64", Record: true}, out.rejects[1])

	s.Rules.Contract.Types = freeze
	out = shape(t, s, known, page)
	frozen, ok := errors.AsType[*ContractError](out.err)
	require.True(t, ok, out.err)
	require.Equal(t, []string{"column n of t would become json instead of int64"}, frozen.Diff)
	require.Empty(t, out.batches)
	require.NoError(t, shape(t, s, known, `[{"id":1,"n":"7"}]`).err, "a value that fits the type is stored")

	s.Rules.Contract.Types = schemas.Evolve
	out = shape(t, s, known, page)
	require.NoError(t, out.err)
	require.Contains(t, out.column("t", "n"), `"\"seven\""`)
}

func TestContractTypesOfEveryKind(t *testing.T) {
	s, known := contracted(t, schemas.Contract{Types: discardValue})
	for _, tt := range []struct{ column, page, want string }{
		{"d", `"1.50",2,3.125,-0.0,1e2,"x"`, "3/2 2 null 0 100 null"},
		{"d", `1e-1,12345678901234,123456789012345678`, "1/10 12345678901234 null"},
		{"n", `9223372036854775807,9223372036854775808,"-5.0",-0,"-0"`, "9223372036854775807 null -5 0 0"},
		{"when", `"2026-01-02T03:04:05+01:00","2026-01-02",5`, "2026-01-02T02:04:05Z null null"},
		{"b", `true,"false",1,"yes"`, "true false null null"},
		{"s", `"x",5,true,[1],{"1":2}`, `"x" "5" "true" null null`},
		{"l", `[2],["3"],["x"],[null],4,[[1]],[]`, `[2] [3] null [null] null null []`},
	} {
		var page []string
		for i, v := range elements(tt.page) {
			page = append(page, `{"id":`+string(rune('1'+i))+`,"`+tt.column+`":`+v+`}`)
		}
		out := shape(t, s, known, "["+strings.Join(page, ",")+"]")
		require.NoError(t, out.err)
		require.Equal(t, tt.want, out.column("t", tt.column), tt.page)
		nulls := 0
		for _, r := range out.rejects {
			require.False(t, r.Record)
			if r.Reason != minusZero {
				nulls++
			}
		}
		require.Equal(t, strings.Count(" "+tt.want, " null"), nulls, tt.page)
	}
}

func elements(list string) (all []string) {
	for _, v := range itemsOf([]byte("[" + list + "]")) {
		all = append(all, string(v))
	}
	return all
}

func TestContractTypeOfAKey(t *testing.T) {
	s, known := contracted(t, schemas.Contract{Types: discardValue})
	out := shape(t, s, known, `[{"id":"7","items":[{"a":1}]},{"id":"k","items":[{"a":1}]}]`)
	require.Equal(t, "7", out.column("t", "id"))
	require.Equal(t, "7", out.column("t__items", schemas.ColParent))
	require.EqualValues(t, 1, out.rejected, "without its key, a record cannot be stored")
	require.Equal(t, `"k"`, out.rejects[0].Key)
}

func TestContractColumns(t *testing.T) {
	const page = `[{"id":1,"extra":5,"items":[{"a":1},{"a":2,"more":{"x":"y"}}]},{"id":2,"extra":null,"items":[{"a":3}]}]`

	s, known := contracted(t, schemas.Contract{Columns: discardValue})
	out := shape(t, s, known, page)
	require.Equal(t, []string{"id: 1 2", "n: null null", "d: null null", "when: null null", "b: null null", "s: null null", "l: null null"}, out.cells("t"))
	require.Equal(t, []string{"a: 1 2 3"}, out.cells("t__items"))
	require.Len(t, out.rejects, 2)
	require.Equal(t, Reject{Stream: "m.t", Stage: StageContract, ID: "1", Ordinal: 0, Key: "1", Pointer: "/extra", Wanted: "nothing", Raw: "5", Reason: "the contract does not allow the new column extra of t"}, out.rejects[0])
	require.Equal(t, "/items/1/more/x", out.rejects[1].Pointer)
	require.Equal(t, `"y"`, out.rejects[1].Raw)

	s.Rules.Contract.Columns = discardRow
	out = shape(t, s, known, page)
	require.Equal(t, "2", out.column("t", "id"))
	require.Equal(t, "2", out.column("t__items", schemas.ColParent))
	require.Empty(t, out.column("t", "extra"))
	require.EqualValues(t, 1, out.rejected)
	require.Len(t, out.rejects, 1)
	require.Equal(t, `{"id":1,"extra":5,"items":[{"a":1},{"a":2,"more":{"x":"y"}}]}`, out.rejects[0].Raw)
	require.True(t, out.rejects[0].Record)

	s.Rules.Contract.Columns = freeze
	out = shape(t, s, known, page)
	require.EqualError(t, out.err, "schema of m.t is frozen: column extra of t is new: int64; column more__x of t__items is new: text")
	out = shape(t, s, known, `[{"id":1,"extra":null}]`)
	require.NoError(t, out.err, "no record has a value in the new column")
	require.Empty(t, out.column("t", "extra"))

	s.Types = map[string]string{"promised": "date"}
	out = shape(t, s, known, `[{"id":1,"promised":null}]`)
	require.NoError(t, out.err)
	require.Empty(t, out.column("t", "promised"), "a declared type does not create a column either")
}

func TestContractTables(t *testing.T) {
	const page = `[{"id":1,"other":[{"b":1,"sub":[{"c":1}]},{"b":2}],"items":[{"a":1,"tags":[{"x":1}]}]},{"id":2}]`

	s, known := contracted(t, schemas.Contract{Tables: discardRow})
	out := shape(t, s, known, page)
	require.Equal(t, "1 2", out.column("t", "id"))
	require.Len(t, out.batches, 2)
	require.Zero(t, out.rejected)
	require.Equal(t, []string{"/other/0 {\"b\":1,\"sub\":[{\"c\":1}]}", "/other/1 {\"b\":2}", "/items/0/tags/0 {\"x\":1}"}, pointers(out.rejects))

	s.Rules.Contract.Tables = discardValue
	out = shape(t, s, known, page)
	require.Len(t, out.batches, 2)
	require.Equal(t, []string{`/other [{"b":1,"sub":[{"c":1}]},{"b":2}]`, `/items/0/tags [{"x":1}]`}, pointers(out.rejects))

	s.Rules.Contract.Tables = freeze
	out = shape(t, s, known, page)
	require.EqualError(t, out.err, "schema of m.t is frozen: table t__other is new; table t__other__sub is new; table t__items__tags is new")

	// The first tables of a stream count as new only if the pipeline already has other tables.
	out = shape(t, s, nil, page)
	require.NoError(t, out.err)
	require.Len(t, out.batches, 5)
	for _, policy := range []schemas.Policy{freeze, discardRow, discardValue} {
		s.Rules.Contract.Tables = policy
		m := NewMapper(s, testStamp, nil)
		sh, err := NewShaper(m, true)
		require.NoError(t, err)
		require.NoError(t, appendAll(m, []byte(page)))
		batches, _ := m.Flush()
		batches, rejects, err := sh.Shape(batches)
		require.Empty(t, batches)
		if policy == freeze {
			require.ErrorContains(t, err, "table t is new")
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, 2, sh.Rejected())
		require.Equal(t, `{"id":2}`, rejects[1].Raw)
	}
}

func pointers(rejects []Reject) (all []string) {
	for _, r := range rejects {
		all = append(all, r.Pointer+" "+r.Raw)
	}
	return all
}

func TestContractWithFilterAndMasks(t *testing.T) {
	s, known := contracted(t, schemas.Contract{Types: freeze, Columns: freeze, Tables: freeze})
	yes := true
	s.Rules.Filter = []schemas.Condition{{Column: "extra", Null: &yes}}
	out := shape(t, s, known, `[{"id":1,"extra":5,"fresh":[{"q":1}]},{"id":2}]`)
	require.NoError(t, out.err, "the contract does not apply to records that the filter leaves out")
	require.Equal(t, "2", out.column("t", "id"))
	require.EqualValues(t, 1, out.filtered)

	s, known = contracted(t, schemas.Contract{Columns: discardValue, Types: freeze})
	s.Rules.Masks = masks("extra", "hash", "n", "hash", "phone", "drop")
	out = shape(t, s, known, `[{"id":1,"extra":5,"n":"secret","phone":5}]`)
	require.NoError(t, out.err, "a mask may turn column n into text")
	require.Equal(t, []string{"/extra [masked]"}, pointers(out.rejects))
	require.Len(t, out.column("t", "n"), 66)

	s.Rules = schemas.Rules{Contract: schemas.Contract{Columns: discardRow}, Masks: masks("phone", "drop", "email", "hash")}
	out = shape(t, s, known, `[{"id":1,"extra":5,"phone":"0123","o":{"email":"a@b","x":1}}]`)
	require.Equal(t, []string{` {"id":1,"extra":5,"o":{"email":"[masked]","x":1}}`}, pointers(out.rejects))
	require.False(t, HasWholeRecord(out.rejects[0].Reason))
}

func TestRejectsOfRecordsCanBeReadAgain(t *testing.T) {
	s, known := contracted(t, schemas.Contract{Columns: discardRow})
	const record = `{"id":1, "extra" : [1,{"ü":"\u00fc"}],"d":1.50}`
	out := shape(t, s, known, "["+record+"]")
	require.True(t, HasWholeRecord(out.rejects[0].Reason))
	require.Equal(t, record, out.rejects[0].Raw)
	s.Rules.Contract = schemas.Contract{}
	require.Equal(t, "1", shape(t, s, known, "["+out.rejects[0].Raw+"]").column("t", "id"))

	for page, whole := range map[string]bool{`[{"id":null}]`: true, `[{"id":1,"a":1,"id":2}]`: true, "[{\"id\":\"\xff\"}]": false,
		`[{"s":"` + strings.Repeat("x", 1<<20) + `"}]`: false, `[{"s":"` + strings.Repeat("x", 1<<19) + `"}]`: true} {
		out := shape(t, s, nil, page)
		require.Len(t, out.rejects, 1)
		require.Equal(t, whole, HasWholeRecord(out.rejects[0].Reason), out.rejects[0].Reason)
		if whole {
			require.Equal(t, page, "["+out.rejects[0].Raw+"]")
		}
	}
}

func TestContractExcludesRest(t *testing.T) {
	const page = `[{"id":1,"extra":5,"more":"x"},{"id":2}]`
	s, known := contracted(t, schemas.Contract{Columns: discardValue})
	s.MaxColumns = 7 // the table already has 7 columns
	out := shape(t, s, known, page)
	require.Equal(t, "1 2", out.column("t", "id"))
	require.Empty(t, out.column("t", schemas.ColRest))
	require.Len(t, out.rejects, 1)
	require.Equal(t, "/"+schemas.ColRest, out.rejects[0].Pointer)
	require.Equal(t, `{"extra":5,"more":"x"}`, out.rejects[0].Raw)
	require.False(t, out.rejects[0].Record)

	s.Rules.Contract.Columns = discardRow
	out = shape(t, s, known, page)
	require.Equal(t, "2", out.column("t", "id"))
	require.EqualValues(t, 1, out.rejected)

	s.Rules.Contract.Columns = freeze
	require.EqualError(t, shape(t, s, known, page).err, "schema of m.t is frozen: column _penstock_rest of t is new: json")
	require.NoError(t, shape(t, s, known, `[{"id":2}]`).err)

	s.Rules.Contract.Columns = schemas.Evolve
	require.Equal(t, `"{\"extra\":5,\"more\":\"x\"}" null`, shape(t, s, known, page).column("t", schemas.ColRest))
}
