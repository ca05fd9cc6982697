//go:build unix

package extract

import (
	"hash/maphash"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// FuzzLinear looks for the records in bodies that are deep, wide or long, and fails if the time grows faster than the
// size of the body. The bound is far above the time that a linear search takes, even in a fuzz test that records
// coverage.
// Invariant 15
func FuzzLinear(f *testing.F) {
	for _, shape := range [][3]string{
		{`{"data":`, `1`, `}`}, {`[`, ``, `]`}, {`{"items":[`, `{"id":1}`, `]}`}, {`{"data":`, `1`, `,"meta":[{"total":1}]}`},
		{`{"`, `":1}`, ``}, {`{"data":[{"id":1}],`, `"x":1}`, ``}, {`[{"id":1},`, `{}]`, ``}, {`{"data":{"a":[],`, `"b":[]}}`, ``}, {`"\u00e9`, `"`, ``},
	} {
		f.Add(shape[0], shape[1], shape[2])
	}
	streams := []schemas.Stream{{Name: "x.things", Class: "list"}, {Name: "x.things", Class: "list", Records: []string{"/data/*/items", "/data", ""}}}
	f.Fuzz(func(t *testing.T, before, middle, after string) {
		if n := len(before) + len(after); n == 0 || n > 1<<10 || len(middle) > 1<<10 {
			return
		}
		n := 1 << 18 / (len(before) + len(after))
		body := []byte(strings.Repeat(before, n) + middle + strings.Repeat(after, n))
		const perByte = 4 * time.Microsecond
		for _, s := range streams {
			least := time.Duration(0)
			for i := range 3 {
				start := processorTime()
				d := new(jsondoc.Doc)
				if d.Scan(body) == nil {
					if found, err := records.Find(d, s); err == nil {
						var b batch
						_ = (&assembler{seed: maphash.MakeSeed()}).assemble(d, found, &b)
					}
					_ = d.Outline()
				}
				if used := processorTime() - start; i == 0 || used < least {
					least = used
				}
				if least < time.Duration(len(body))*perByte {
					break
				}
			}
			require.Less(t, least, time.Duration(len(body))*perByte, "%q %q %q: %d bytes", before, middle, after, len(body))
		}
	})
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
