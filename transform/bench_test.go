//go:build unix

package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const flushRows = 10_000

func BenchmarkMapper(b *testing.B) {
	for _, tt := range []struct {
		size     int
		compared bool
	}{{1000, false}, {1000, true}, {100, false}} {
		size := tt.size
		b.Run(fmt.Sprintf("pages of %d, compared %t", size, tt.compared), func(b *testing.B) {
			pages := contacts(20_000/size, size)
			m := NewMapper(contactStream(), testStamp, nil)
			defer m.Close()
			if tt.compared {
				m.CompareKeys(func(Clash) ClashVerdict { return ClashOpen }, MostKeySlots)
			}
			perRecord(b, pages, size, func(page []byte) {
				if err := appendAll(m, page); err != nil {
					b.Fatal(err)
				}
				if m.Rows() >= flushRows {
					batches, _ := m.Flush()
					for _, t := range batches {
						t.Batch.Release()
					}
				}
			})
		})
	}
}

func BenchmarkBaseline(b *testing.B) {
	pages := contacts(20, 1000)
	b.Run("copy", func(b *testing.B) {
		dst := make([]byte, len(pages[0])+4096)
		perRecord(b, pages, 1000, func(page []byte) { copy(dst, page) })
	})
	b.Run("jsontext tokens", func(b *testing.B) {
		perRecord(b, pages, 1000, func(page []byte) {
			d := jsontext.NewDecoder(bytes.NewBuffer(page))
			for {
				if _, err := d.ReadToken(); err == io.EOF {
					return
				} else if err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("encoding json into maps", func(b *testing.B) {
		perRecord(b, pages, 1000, func(page []byte) {
			var v []map[string]any
			if err := json.Unmarshal(page, &v); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// perRecord reports the speed by wall time and by CPU time, because other programs may use the machine at the same
// time.
func perRecord(b *testing.B, pages [][]byte, size int, read func(page []byte)) {
	for _, p := range pages {
		read(p)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var bytes int64
	n := 0
	cpu := cpuTime()
	for b.Loop() {
		page := pages[n%len(pages)]
		bytes += int64(len(page))
		n++
		read(page)
	}
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	records := float64(n * size)
	b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(bytes)/1e6/cpu.Seconds(), "MB/cpu-s")
	b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/records, "allocs/record")
	b.ReportMetric(0, "ns/op")
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
