package loadtest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// longText returns a text that cannot be compressed.
func longText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func testLongestKeys(t *testing.T, d Driver) {
	b := newFixture(t, d)
	keyed := root("keyed", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text))
	items := hanging("keyed__items", schemas.Text, false, column("sku", schemas.Text))
	id := longText(schemas.MaxKeyBytes - len(`""`))
	row := func(name string) Row { return with(b.pass.Run, 0, "h-"+name, Row{"id": id, "name": name}) }
	reject := Row{"run": "r1", "pipeline": "nightly", "stream": "crm.leads", "pass": "1", "ordinal": "3", "record": "false",
		"record_id": schemas.Indexed(longText(30_000)), "pointer": schemas.Indexed("/" + longText(30_001)), "key": longText(30_000)}
	parent := Row{"pipeline": "nightly", "stream": "crm.leads", "parent": `["` + id[:schemas.MaxKeyBytes-4] + `"]`, "run": "r1"}
	for _, name := range []string{"ann", "bea"} {
		x := b.begin()
		b.write(x, put{keyed, []Row{row(name)}}, put{items, itemsOf(b.pass.Run, 0, "h-"+name, id, "s"+name)},
			put{load.Rejects, []Row{reject}}, put{load.Parents, []Row{parent}})
		b.finish(x)
		b.run(2)
	}
	require.ElementsMatch(t, []Row{{"id": id, "name": "bea"}}, b.rows("keyed"))
	require.Len(t, b.rows("keyed__items"), 1)
	require.ElementsMatch(t, []Row{reject}, d.Rows(t, b.dest, load.Rejects.Name))
	require.ElementsMatch(t, []Row{parent}, d.Rows(t, b.dest, load.Parents.Name))
}
