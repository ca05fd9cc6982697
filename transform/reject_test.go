package transform

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestRejects(t *testing.T) {
	tests := []struct {
		name   string
		stream schemas.Stream
		page   string
		want   Reject
	}{
		{"duplicate name", keyedStream, `[{"id":1,"a":1,"a":2}]`,
			Reject{Key: "1", Wanted: "record", Raw: `{"id":1,"a":1,"a":2}`, Reason: reasons[refuseDuplicate], Record: true}},
		{"duplicate key", keyedStream, `[{"id":1,"id":2}]`,
			Reject{Key: "1", Wanted: "record", Raw: `{"id":1,"id":2}`, Reason: reasons[refuseDuplicate], Record: true}},
		{"invalid UTF-8", keyedStream, "[{\"id\":\"k\",\"a\":\"x\xffy\xc3\"}]",
			Reject{Key: `"k"`, Wanted: "record", Raw: `{"id":"k","a":"x\xFFy\xC3"}`, Reason: reasons[refuseEncoding] + notText, Record: true}},
		{"lone surrogate in JSON text", keyedStream, `[{"id":1,"a":{"1":"\ud800"}}]`,
			Reject{Key: "1", Wanted: "record", Raw: `{"id":1,"a":{"1":"\ud800"}}`, Reason: reasons[refuseEncoding], Record: true}},
		{"missing key", keyedStream, `[{"a":1}]`,
			Reject{Wanted: "record", Raw: `{"a":1}`, Reason: reasons[refuseKey], Record: true}},
		{"null key", keyedStream, `[{"id":null}]`,
			Reject{Wanted: "record", Raw: `{"id":null}`, Reason: reasons[refuseKey], Record: true}},
		{"negative zero", keyedStream, `[{"id":"k","i":[{"x":1},{"o":{"y":-0.00}}]}]`,
			Reject{Key: `"k"`, Pointer: "/i/1/o/y", Wanted: "decimal(16,2)", Raw: "-0.00", Reason: minusZero}},
		{"negative zero in a list", anyStream, `[{"x":[0,-0]}]`,
			Reject{Pointer: "/x/1", Wanted: "int64", Raw: "-0", Reason: minusZero}},
		{"negative zero in quotes", typedStream, `[{"a":"-0.00"}]`,
			Reject{Pointer: "/a", Wanted: "decimal(16,2)", Raw: `"-0.00"`, Reason: minusZero}},
		{"list of nulls", anyStream, `[{"x":[null, null]},{"x":1}]`,
			Reject{Pointer: "/x", Wanted: "int64", Raw: "[null, null]", Reason: "a list of nulls in a column that is no list"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := mustMap(t, tt.stream, tt.page)
			tt.want.Stream, tt.want.Stage, tt.want.ID = tt.stream.Name, StageTransform, tt.want.Key
			if tt.want.Key == "" { // a hash of what the record holds
				require.Regexp(t, `^#.+`, out.rejects[0].ID)
				tt.want.ID = out.rejects[0].ID
			}
			require.Equal(t, []Reject{tt.want}, out.rejects)
			require.Equal(t, out.rejects, mustMap(t, tt.stream, tt.page).rejects, "the same record has the same identity")
		})
	}
}

// A part of the key is a column, in whatever way the source spells its member.
func TestKeyIsFoundByItsColumn(t *testing.T) {
	for _, name := range []string{"id", "ID", "Id", "objectId", "order-no", "KundenNr"} {
		t.Run(name, func(t *testing.T) {
			s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: schemas.KeyColumns([]string{name})}}
			out := mustMap(t, s, `[{"`+name+`":1},{"`+name+`":null,"a":1},{"`+name+`":2,"a":1,"a":2},{"`+name+`":3}]`)
			require.Equal(t, s.Key, out.batches[0].Table.Key)
			a, _ := out.table("").column("/" + name)
			require.Equal(t, "1 3", lines(a))
			require.Len(t, out.rejects, 2)
			require.Equal(t, reasons[refuseKey], out.rejects[0].Reason)
			require.Equal(t, "2", out.rejects[1].Key)

			before := mustMap(t, s, `[{"`+name+`":7,"a":1,"a":2}]`) // no record had the column yet
			require.Equal(t, "7", before.rejects[0].Key)
		})
	}
}

func TestNegativeZeroIsKeptWhereTheColumnIsText(t *testing.T) {
	out := mustMap(t, anyStream, `[{"x":-0},{"x":-0.0}]`, `[{"x":"s"}]`)
	require.Empty(t, out.rejects)
	a, _ := out.table("").column("/x")
	require.Equal(t, `"-0" "-0.0" "s"`, lines(a))
}

func TestHugeRecordIsRejectedAlone(t *testing.T) {
	huge := `{"id":2,"s":"` + strings.Repeat("x", 50<<20) + `"}`
	out := mustMap(t, keyedStream, `[{"id":1},`+huge+`,{"id":3}]`)
	a, _ := out.table("").column("/id")
	require.Equal(t, "1 3", lines(a))
	require.Len(t, out.rejects, 1)
	require.Equal(t, reasons[refuseSize]+notWhole, out.rejects[0].Reason)
	require.Equal(t, int64(1), out.rejects[0].Ordinal)
	require.Equal(t, "2", out.rejects[0].Key)
	require.Len(t, out.rejects[0].Raw, maxRawRecord)
}

func TestDeepRecordIsRejectedAlone(t *testing.T) {
	deep := `{"id":2,"x":` + strings.Repeat(`[`, 100_000) + strings.Repeat(`]`, 100_000) + `}`
	out := mustMap(t, keyedStream, `[{"id":1},`+deep+`,{"id":3,"x":[`+strings.Repeat("1,", 1_000_000)+`1]}]`)
	a, _ := out.table("").column("/id")
	require.Equal(t, "1 3", lines(a))
	require.Len(t, out.rejects, 1)
	require.Equal(t, reasons[refuseDepth], out.rejects[0].Reason)
}
