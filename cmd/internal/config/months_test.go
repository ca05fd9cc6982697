package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestMonths(t *testing.T) {
	c := parsed(t, `
version: 1
sources: {main: {app: {base_url: "https://a.example", auth: {token: t}}}}
destinations: {w: "duckdb:w"}
pipelines: {all: {from: main, to: w, streams: ["*"]}}
streams:
  my.days: {path: /api/days, key: [id], months: {month: m, year: y, recent: 5, first: 2024-02, full: 2d}}
  my.list: {path: /api/list, months: none}
`)
	s, _ := c.Stream("my.days")
	require.Equal(t, schemas.Months{Month: "m", Year: "y", Recent: 5, First: time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), Full: 48 * time.Hour}, s.Months)
	s, _ = c.Stream("my.list")
	require.False(t, s.Months.Set())
}
