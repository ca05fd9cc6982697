package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
)

// Together counts the destinations on the same server to which one pipeline writes.
func TestTogether(t *testing.T) {
	at := func(name, url string) Destination { return Destination{Name: name, URL: wire.Secret(url)} }
	to := func(names ...string) (p Pipeline) {
		for _, name := range names {
			p.To = append(p.To, Ref{Text: name})
		}
		return p
	}
	c := &Config{
		Destinations: []Destination{at("a", "postgres://h/db"), at("b", "postgres://h/db?json=json"), at("c", "postgres://other/db"), at("d", "postgres://h/db"), at("unused", "postgres://h/db")},
		Pipelines:    []Pipeline{to("a", "b", "c"), to("c"), to("d")},
	}
	c.countTogether()
	got := map[string]int{}
	for _, d := range c.Destinations {
		got[d.Name] = d.Together
	}
	require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 1, "d": 1, "unused": 0}, got)
}
