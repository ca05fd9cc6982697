package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// If the settings of a stream are pasted into a file, the file configures the same stream. They contain no secret.
func TestWrittenReadsTheSame(t *testing.T) {
	t.Parallel()
	const head = `version: 1
sources: {main: {app: {base_url: "https://api.example", auth: {token: t}}}}
destinations: {w: "duckdb:w.duckdb"}
pipelines: {p: {from: main, to: w}}
`
	stream := func(text string) Stream {
		c, err := Parse([]byte(head+text), input())
		require.NoError(t, err, text)
		s, ok := c.Stream("blog.posts")
		require.True(t, ok)
		return s
	}
	s := stream(`streams:
  crm.leads: &common {records: [/data/items, ""], pagination: {type: page, page: page, size: per_page, limit: 100, order: "sort=id&direction=asc"}}
  blog.posts:
    <<: *common
    path: "https://${PENSTOCK_APP_TOKEN}.example/posts"
    params: {lang: "it's \"x\": y", since: 0644, flag: yes}
    key: [id]
    context: stage
    columns: {mail: {mask: hmac}}
    mode: append
`)
	require.NotEmpty(t, s.Settings)
	text := "streams:\n  blog.posts:\n"
	for _, w := range s.Settings {
		text += "    " + w.Key + ": " + w.Value + "\n"
	}
	require.NotContains(t, text, "hush")
	again := stream(text)
	require.ElementsMatch(t, s.Settings, again.Settings)
	for _, s := range []*Stream{&s, &again} {
		s.At, s.Settings, s.Columns = Pos{}, nil, nil // these fields have positions in the file, which differ
	}
	require.Equal(t, s, again)
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/data/items": "/data/items", "": `""`, "no": `"no"`, "page[size]": `"page[size]"`, "12": `"12"`, "a<b": `"a<b"`, "/data/*/x": `"/data/*/x"`, "x: y": `"x: y"`,
	} {
		require.Equal(t, want, Quote(text))
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[ -~äé\n\t]{0,20}`).Draw(rt, "text")
		r := &reader{Input: Input{}}
		n := root(r, []byte("k: "+Quote(text)+"\n"), "file")
		require.True(rt, n.given(), Quote(text))
		es, ok := n.entries()
		require.True(rt, ok)
		require.Equal(rt, Quote(text), es[0].line())
		if v, ok := es[0].resolve().(interface{ GetValue() any }); ok {
			require.Equal(rt, text, v.GetValue())
		}
	})
}
