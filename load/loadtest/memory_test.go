package loadtest

import (
	"testing"

	"github.com/penstock-data/penstock/load"
)

func TestMemory(t *testing.T) {
	opened := map[testing.TB]*Memory{}
	Run(t, Driver{
		Open: func(t testing.TB, step func(string) error) load.Destination {
			m, ok := opened[t]
			if ok {
				m = m.Reopen(step)
			} else {
				m = NewMemory(step)
			}
			opened[t] = m
			return m
		},
		Rows: func(_ testing.TB, d load.Destination, table string) []Row { return d.(*Memory).Rows(table) },
	})
}
