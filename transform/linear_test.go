//go:build unix

package transform

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// perByte is the most processor time that a byte may take, in a fuzz test that records coverage. An algorithm of linear
// time needs less than a tenth of this time. An algorithm of quadratic time needs more than perByte, because the
// records are at least linearBytes long.
const (
	perByte     = 4 * time.Microsecond
	linearBytes = 1 << 18
)

// FuzzLinear maps records that are deep, wide or long, and fails if the time grows faster than their size.
// Invariant 15
func FuzzLinear(f *testing.F) {
	for _, shape := range [][3]string{
		{`{"a":`, `1`, `}`}, {`[`, ``, `]`}, {`{"a":[`, `1`, `]}`}, {`{"a":`, `1`, `,"b":[{"c":1}]}`}, {`{"a":`, `1`, `,"a":2}`},
		{`{"b":"x","a":[{},`, `null`, `,{}]}`}, {`"m#":1,`, ``, ``}, {`"m#":{"x":1,"y":{"z":2}},`, ``, ``}, {`[1,`, `1]`, ``}, {`[null,`, `{}]`, ``}, {`[{"id":1},`, `{}]`, ``},
		{`"\u00e9`, `"`, ``}, {`1`, `.5`, ``}, {`"é`, "\xff\"", ``},
	} {
		f.Add(shape[0], shape[1], shape[2], false)
		f.Add(shape[0], shape[1], shape[2], true)
	}
	s := schemas.Stream{Name: "x.things", Table: schemas.Table{Name: "x_things", Key: []string{"id"}}}
	f.Fuzz(func(t *testing.T, before, middle, after string, many bool) {
		if n := len(before) + len(middle) + len(after); n == 0 || n > 1<<10 || len(before)+len(after) == 0 {
			return
		}
		page := pageOf(before, middle, after, many)
		least := time.Duration(0)
		for i := range 3 { // other programs may use the processor's caches
			start := cpuTime()
			m := NewMapper(s, testStamp, nil)
			_ = appendAll(m, page)
			batches, _ := m.Flush()
			release(batches, nil)
			m.Close()
			if used := cpuTime() - start; i == 0 || used < least {
				least = used
			}
			if least < time.Duration(len(page))*perByte {
				return
			}
		}
		require.Less(t, least, time.Duration(len(page))*perByte, "%q %q %q: %d bytes", before, middle, after, len(page))
	})
}

// pageOf returns a page with one large record or, if `many` is true, with many records. The value in a record consists
// of three texts: `before` repeated many times, then `middle`, and then `after` repeated as many times as `before`. In
// each repetition of `before`, the character # becomes the number of the repetition. If the value begins with a name,
// pageOf makes it an object.
func pageOf(before, middle, after string, many bool) []byte {
	depth := linearBytes / (len(before) + len(after))
	if many {
		depth = 100
	}
	var opened strings.Builder
	for i := range depth {
		opened.WriteString(strings.ReplaceAll(before, "#", strconv.Itoa(i)))
	}
	value := opened.String() + middle + strings.Repeat(after, depth)
	if strings.HasPrefix(value, `"`) && strings.HasSuffix(value, ",") {
		value = "{" + strings.TrimSuffix(value, ",") + "}"
	}
	record := `{"id":1,"v":` + value + `}`
	return []byte("[" + strings.Repeat(record+",", linearBytes/len(record)) + record + "]")
}
