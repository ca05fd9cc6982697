package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// The `imported` block of a stream overrides the catalogue. The other keys of the stream override the block, whether
// they come before it or after it.
func TestImported(t *testing.T) {
	c := parsed(t, `
version: 1
sources: {main: {app: {base_url: "https://a.example", auth: {token: t}}}}
destinations: {w: "duckdb:w"}
pipelines: {all: {from: main, to: w, streams: ["*"]}}
streams:
  my.list:
    key: [code]
    columns: {total: "decimal(16,2)", name: {description: mine}}
    imported:
      from: Doc
      operation: GET /list
      path: /api/list
      key: [id]
      records: /rows
      pagination: {type: page, page: p}
      columns: {total: {type: int64, description: the sum}, at: {type: date}, name: {description: theirs}}
  my.off: {imported: {path: "/api/list/{id}/x", off: no parent}}
  my.on: {parent: my.list, params: {id: {from: /id}}, imported: {path: "/api/list/{id}/y"}}
`)
	s, ok := c.Stream("my.list")
	require.True(t, ok)
	require.Equal(t, "/api/list", s.Path)
	require.Equal(t, []string{"code"}, s.Key)
	require.Equal(t, []string{"/rows"}, s.Records)
	require.Equal(t, map[string]string{"total": "decimal(16,2)", "at": "date"}, s.Types)
	require.Equal(t, map[string]string{"total": "the sum", "name": "mine"}, s.Descriptions)
	require.Equal(t, map[string]string{
		"key": schemas.StatedConfigured, "records": schemas.StatedImported, "pagination": schemas.StatedImported, "path": schemas.StatedImported,
	}, s.Stated)
	off, _ := c.Stream("my.off")
	require.False(t, off.Enabled)
	require.Equal(t, "no parent", off.Reason)
	on, _ := c.Stream("my.on")
	require.Equal(t, []schemas.Param{{Name: "id", In: "path", From: "/id"}}, on.Params)
	chosen, err := c.Select(c.Pipelines[0], nil)
	require.NoError(t, err)
	for _, s := range chosen {
		require.NotEqual(t, "my.off", s.Name)
	}
}
