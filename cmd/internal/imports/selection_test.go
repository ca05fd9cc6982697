package imports

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// largeDocument returns an OpenAPI document with 120 lists in three groups.
func largeDocument() []byte {
	var b strings.Builder
	b.WriteString("openapi: 3.0.0\ninfo: {title: \"Hub's official v3 REST API\", version: '1'}\nservers: [{url: https://api.hub.example}]\npaths:\n")
	for i := range 120 {
		tag := []string{"issues", "code-scanning", "teams"}[i%3]
		fmt.Fprintf(&b, "  /orgs/%s/list%d: {get: {tags: [%s], responses: {'200': {description: ok, content: {application/json: {schema: {type: array, items: {type: object, properties: {id: {type: integer}}}}}}}}}}\n", tag, i, tag)
	}
	return []byte(b.String())
}

// TestSelection: tags and paths select a part of a large description. Each tag of such a description is a module, also
// if only a part is imported.
func TestSelection(t *testing.T) {
	t.Parallel()
	d, err := OpenAPI("hub.yaml", largeDocument())
	require.NoError(t, err)
	require.Equal(t, "code-scanning (40), issues (40), teams (40)", d.Tags())
	for _, c := range []struct {
		part    Selection
		streams int
		modules string
	}{
		{Selection{}, 120, "hub_code_scanning hub_issues hub_teams"},
		{Selection{Tags: []string{"Issues", "teams"}}, 80, "hub_issues hub_teams"},
		{Selection{Paths: []string{"/orgs/*/list1", "/orgs/teams/*2"}}, 5, "hub_code_scanning hub_teams"},
		{Selection{Tags: []string{"issues"}, Paths: []string{"/orgs/*/list3*"}}, 5, "hub_issues"},
	} {
		streams, outcomes, err := Define(d, Options{File: "hub.yaml", Select: c.part})
		require.NoError(t, err)
		require.Len(t, streams, c.streams, c.part)
		require.Len(t, outcomes, c.streams, c.part)
		modules := map[string]bool{}
		for _, s := range streams {
			module, _, _ := strings.Cut(s.Name, ".")
			modules[module] = true
		}
		require.Equal(t, c.modules, strings.Join(slices.Sorted(maps.Keys(modules)), " "))
	}
	_, _, err = Define(d, Options{File: "hub.yaml", Select: Selection{Tags: []string{"nosuch"}}})
	require.EqualError(t, err, "hub.yaml: none of its operations is selected")
	require.Contains(t, err.(*Error).Hint, "the tags are code-scanning (40)")
}

// A configuration has a limit. If the streams of a description exceed it, the error states the limit.
func TestLimit(t *testing.T) {
	t.Parallel()
	d, err := OpenAPI("hub.yaml", largeDocument())
	require.NoError(t, err)
	streams, _, err := Define(d, Options{File: "hub.yaml"})
	require.NoError(t, err)
	for i := range streams {
		streams[i].Description = strings.Repeat("x", maxFile/100)
	}
	_, _, err = Merge("", nil, streams)
	require.ErrorContains(t, err, "with 120 streams of the description, the configuration would have ")
	require.ErrorContains(t, err, "it may have 50000 in 1048576 bytes")
}
