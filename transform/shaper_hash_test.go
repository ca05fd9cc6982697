package transform

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func hashes(t *testing.T, s schemas.Stream, known []schemas.Table, page string) []string {
	return strings.Fields(shape(t, s, known, page).column("t", schemas.ColHash))
}

func TestHashWithDropsAndMasks(t *testing.T) {
	with := func(rules ...string) schemas.Stream { return ruledStream(schemas.Rules{Masks: masks(rules...)}) }
	one := func(s schemas.Stream, record string) string { return hashes(t, s, nil, "["+record+"]")[0] }

	drop := with("x", "drop")
	require.Equal(t, one(drop, `{"id":1,"x":1}`), one(drop, `{"id":1,"x":"two"}`), "a dropped value changes")
	require.Equal(t, one(drop, `{"id":1,"x":1}`), one(drop, `{"id":1}`))
	require.Equal(t, one(drop, `{"id":1,"o":{"x":1,"y":2}}`), one(drop, `{"id":1,"o":{"x":3,"y":2}}`))
	require.NotEqual(t, one(drop, `{"id":1,"o":{"x":1,"y":2}}`), one(drop, `{"id":1,"o":{"x":1,"y":3}}`), "a value beside the dropped value changes")
	require.NotEqual(t, one(drop, `{"id":1,"x":1}`), one(with(), `{"id":1,"x":1}`), "a new rule drops the value")
	require.Equal(t, one(drop, `{"id":1,"y":1}`), one(with(), `{"id":1,"y":1}`), "the rule drops nothing")

	partial := with("x", "partial")
	require.Equal(t, one(partial, `{"id":1,"x":"111112345"}`), one(partial, `{"id":1,"x":"999912345"}`), "equal masked values")
	require.NotEqual(t, one(partial, `{"id":1,"x":"111112345"}`), one(partial, `{"id":1,"x":"111154321"}`))
	require.NotEqual(t, one(partial, `{"id":1,"x":"111112345"}`), one(with("x", "redact"), `{"id":1,"x":"111112345"}`), "another mask")
	require.NotEqual(t, one(with("x", "hash", "y", "hash"), `{"id":1,"x":"a","y":"b"}`), one(with("x", "hash", "y", "hash"), `{"id":1,"x":"b","y":"a"}`))

	other := with("x", "hmac")
	other.Rules.MaskKey = "another key of this length"
	require.NotEqual(t, one(with("x", "hmac"), `{"id":1,"x":"a"}`), one(other, `{"id":1,"x":"a"}`), "another key")

	nested := `{"id":1,"items":[{"x":"a","sub":[{"x":"p"},{"x":"q"}]},{"x":"b","sub":[{"x":"r"}]}]}`
	for _, moved := range []string{
		`{"id":1,"items":[{"x":"b","sub":[{"x":"p"},{"x":"q"}]},{"x":"a","sub":[{"x":"r"}]}]}`,
		`{"id":1,"items":[{"x":"a","sub":[{"x":"q"},{"x":"p"}]},{"x":"b","sub":[{"x":"r"}]}]}`,
		`{"id":1,"items":[{"x":"a","sub":[{"x":"p"},{"x":"r"}]},{"x":"b","sub":[{"x":"q"}]}]}`,
	} {
		require.NotEqual(t, one(with("x", "hash"), nested), one(with("x", "hash"), moved), "a masked value in another position")
		require.Equal(t, one(with("x", "redact"), nested), one(with("x", "redact"), moved))
	}
	require.NotEqual(t, one(with("x", "hash"), `{"id":1,"x":["a","b"]}`), one(with("x", "hash"), `{"id":1,"x":["b","a"]}`))
	require.NotEqual(t, one(with("x", "hash"), `{"id":1,"x":[["a"]]}`), one(with("x", "hash"), `{"id":1,"x":[["b"]]}`))
	require.Equal(t, one(with("x", "redact"), `{"id":1,"x":[["a"]]}`), one(with("x", "redact"), `{"id":1,"x":[["b"]]}`))
	json := `{"id":1,"a":{"b":{"c":{"x":"s","y":1}}}}`
	require.Equal(t, one(with("x", "drop"), json), one(with("x", "drop"), strings.Replace(json, `"s"`, `"t"`, 1)), "in JSON text")
	require.NotEqual(t, one(with("x", "drop"), json), one(with("x", "drop"), strings.Replace(json, `1}}}`, `2}}}`, 1)))

	renamed := ruledStream(schemas.Rules{Rename: map[string]string{"x": "z"}})
	require.NotEqual(t, one(renamed, `{"id":1,"x":1}`), one(with(), `{"id":1,"x":1}`), "a new rule renames the column")
	require.NotEqual(t, one(renamed, `{"id":1,"x":1}`), one(renamed, `{"id":1,"x":2}`))
	require.Equal(t, one(renamed, `{"id":1,"y":1}`), one(with(), `{"id":1,"y":1}`))
	selected := ruledStream(schemas.Rules{Select: []string{"y"}})
	require.Equal(t, one(selected, `{"id":1,"x":1,"y":2}`), one(selected, `{"id":1,"x":2,"y":2}`))
	require.NotEqual(t, one(selected, `{"id":1,"x":1,"y":2}`), one(with(), `{"id":1,"x":1,"y":2}`))
}

// An unchanged record keeps its hash. Other values, and the types of columns in the destination, do not matter.
func TestHashDoesNotDependOnTheBatch(t *testing.T) {
	s := ruledStream(schemas.Rules{Masks: append(masks("x", "hash", "id", "hmac"), schemas.MaskRule{Column: "y", Mask: schemas.Mask{Action: "round"}})})
	const records = `{"id":1,"x":5.50,"y":149},{"id":2,"x":true,"y":150.00},{"id":3,"x":"2026-01-01","y":1}`
	first := shape(t, s, nil, "["+records+"]")
	want := strings.Fields(first.column("t", schemas.ColHash))
	for _, more := range []string{`,{"id":"k","x":"text","y":1.123}`, `,{"id":9,"x":7,"y":1e20}`, `,{"id":9,"x":"7"}`} {
		require.Equal(t, want, hashes(t, s, tablesOf(first), "["+records+more+"]")[:3], more)
		require.Equal(t, want, hashes(t, s, nil, "["+records+more+"]")[:3], more)
	}
}

func TestHashOfARowThatLostAValue(t *testing.T) {
	s, known := contracted(t, schemas.Contract{Columns: discardValue, Types: discardValue, Tables: discardValue})
	open := s
	open.Rules.Contract = schemas.Contract{}
	for _, page := range []string{`[{"id":1,"extra":5}]`, `[{"id":1,"n":"five"}]`, `[{"id":1,"fresh":[{"a":1}]}]`} {
		require.NotEqual(t, hashes(t, s, known, page), hashes(t, open, known, page), page)
		require.Equal(t, hashes(t, s, known, page), hashes(t, s, known, page))
	}
	require.Equal(t, hashes(t, s, known, `[{"id":1,"n":5}]`), hashes(t, open, known, `[{"id":1,"n":5}]`), "no value was lost")
	require.Equal(t, hashes(t, s, known, `[{"id":1,"n":"5"},{"id":2,"n":"x"}]`)[0], hashes(t, open, known, `[{"id":1,"n":"5"}]`)[0])
}

func TestSumJoin(t *testing.T) {
	for i := range uint64(1000) {
		var a, b, both, again sum
		a.add(i * 0x9e3779b97f4a7c15)
		b.add(i*i*0xc2b2ae3d27d4eb4f + 7)
		both.add(i * 0x9e3779b97f4a7c15)
		both.add(i*i*0xc2b2ae3d27d4eb4f + 7)
		var spelled, want, got [hashSize]byte
		a.write(spelled[:])
		again = b
		again.join(spelled[:])
		again.write(got[:])
		both.write(want[:])
		require.Equal(t, string(want[:]), string(got[:]))
	}
}
