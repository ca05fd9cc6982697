package imports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

func stream(name, text string) Stream {
	return Stream{Stream: schemas.Stream{Name: name, Method: "GET", Path: "/api/x", Class: schemas.ClassList, Enabled: true, Description: text}, From: "Doc", Operation: "GET /" + name}
}

func TestMerge(t *testing.T) {
	const two = "    imported: # replaced by each import; keys beside it take precedence\n" +
		"      from: Doc\n      operation: GET /a.b\n      description: new\n      path: /api/x\n"
	tests := []struct{ name, in, want string }{
		{"nothing", "", "streams:\n  a.b:\n" + two},
		{"no streams", "version: 1", "version: 1\n\nstreams:\n  a.b:\n" + two},
		{"no value", "streams: # mine\nstate: .x\n", "streams: # mine\n  a.b:\n" + two + "state: .x\n"},
		{"empty braces", "streams: {} # mine\n", "streams:  # mine\n  a.b:\n" + two},
		{"after the last", "streams:\n  x.y: {mode: history} # why\n  # x.z: off\n\n# state\nstate: .x\n",
			"streams:\n  x.y: {mode: history} # why\n  # x.z: off\n  a.b:\n" + two + "\n# state\nstate: .x\n"},
		{"beside the user's keys", "streams:\n  a.b:\n    # a reason\n    mode: history # h\n", "streams:\n  a.b:\n" + two + "    # a reason\n    mode: history # h\n"},
		{"without a value", "streams:\n  a.b:\n", "streams:\n  a.b:\n" + two},
		{"replaced", "streams:\n  a.b:\n    mode: merge\n    imported:\n      from: Doc\n      # noted\n      path: /old\n\n    # last\n    key: [id]\n",
			"streams:\n  a.b:\n    mode: merge\n" + two + "\n    # last\n    key: [id]\n"},
		{"in braces", "streams:\n  a.b: {mode: history } # why\n",
			"streams:\n  a.b: {mode: history, imported: {from: Doc, operation: GET /a.b, description: new, path: /api/x} } # why\n"},
		{"replaced in braces", "streams:\n  a.b: {imported: {from: Doc,\n    path: /old}, mode: history} # why\n",
			"streams:\n  a.b: {imported: {from: Doc, operation: GET /a.b, description: new, path: /api/x}, mode: history} # why\n"},
		{"CRLF line ends", "streams:\r\n  a.b:\r\n    mode: merge\r\n", "streams:\r\n  a.b:\r\n" + strings.ReplaceAll(two, "\n", "\r\n") + "    mode: merge\r\n"},
		{"wide letters", "streams:\n  x.y: {description: \"äöü 漢字\", columns: {a: drop}} # é\n  a.b: {description: \"漢字\"}\n",
			"streams:\n  x.y: {description: \"äöü 漢字\", columns: {a: drop}} # é\n  a.b: {description: \"漢字\", imported: {from: Doc, operation: GET /a.b, description: new, path: /api/x}}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := Merge("f", []byte(tt.in), []Stream{stream("a.b", "new")})
			require.NoError(t, err)
			require.Equal(t, tt.want, string(out))
			again, changes, err := Merge("f", out, []Stream{stream("a.b", "new")})
			require.NoError(t, err)
			require.Equal(t, string(out), string(again))
			require.Equal(t, []Change{{"a.b", Same}}, changes)
		})
	}
}

func TestMergeRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"streams: {x.y: {mode: merge}}\n":                   "f:1:1: `streams` is in braces",
		"a: &a {mode: merge}\nstreams:\n  a.b: *a\n":        "f:3:3: stream a.b is an alias",
		"streams:\n  a.b: [1]\n":                            "f:2:3: stream a.b is not a mapping",
		"{streams: {}}\n":                                   "f:1: want one key per line",
		"streams:\n  a.b: {\n":                              "f:",
		strings.Repeat("[", 100):                            "nested more than 64 levels",
		"streams:\n  a.b: {mode: merge}\n---\nversion: 1\n": "a second document",
		"version: 1\r\nstreams: {}\n":                       "some lines end in",
	} {
		_, _, err := Merge("f", []byte(in), []Stream{stream("a.b", "new")})
		var e *Error
		require.ErrorAs(t, err, &e, in)
		require.Contains(t, e.Error(), want)
	}
}

// Merge keeps every line of the user, in the same order, and changes only the imported blocks.
func TestMergeKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		line := func(indent, text string) { b.WriteString(indent + text + "\n") }
		noise := func(indent string) {
			for range rapid.IntRange(0, 2).Draw(t, "noise") {
				line(rapid.SampledFrom([]string{"", "  ", "    ", indent}).Draw(t, "indent"), rapid.SampledFrom([]string{"", "# streams:", "# it's {mine}", "#"}).Draw(t, "comment"))
			}
		}
		line("", "version: 1 # v")
		noise("")
		line("", "streams:")
		indent := rapid.SampledFrom([]string{"  ", "    "}).Draw(t, "by")
		n := rapid.IntRange(1, 4).Draw(t, "n")
		for i := range n {
			noise(indent)
			line(indent, fmt.Sprintf("s.t%d: # here", i))
			noise(indent + indent)
			line(indent+indent, "mode: history # because")
			if rapid.Bool().Draw(t, "long") {
				line(indent+indent, "description: |")
				line(indent+indent+indent, "many lines: # of text")
				line("", "")
				line(indent+indent+indent, "imported: no")
			}
			noise(indent + indent)
		}
		noise("")
		line("", "state: .x")
		in := b.String()
		if rapid.Bool().Draw(t, "windows") {
			in = strings.ReplaceAll(in, "\n", "\r\n")
		}
		var streams []Stream
		for i := range n + 2 {
			if rapid.Bool().Draw(t, "imported") {
				streams = append(streams, stream(fmt.Sprintf("s.t%d", i), "one"))
			}
		}
		once, _, err := Merge("f", []byte(in), streams)
		if err != nil {
			t.Fatal(err)
		}
		for i := range streams {
			streams[i].Description = "two"
		}
		twice, _, err := Merge("f", once, streams)
		if err != nil {
			t.Fatal(err)
		}
		rest := strings.Split(string(twice), "\n")
		for _, want := range strings.Split(in, "\n") {
			found := false
			for len(rest) > 0 && !found {
				found, rest = rest[0] == want, rest[1:]
			}
			if !found {
				t.Fatalf("line %q is gone:\n%s\nbecame\n%s", want, in, twice)
			}
		}
		if got := strings.Count(string(twice), "description: two"); got != len(streams) || strings.Contains(string(twice), "description: one") {
			t.Fatalf("%d of %d blocks were replaced:\n%s", got, len(streams), twice)
		}
	})
}

func TestGone(t *testing.T) {
	text, _, err := Merge("f", []byte("streams:\n  my.own: {path: /own}\n"), []Stream{stream("a.b", ""), stream("a.c", "")})
	require.NoError(t, err)
	entries, err := Entries("f", text)
	require.NoError(t, err)
	gone := Gone(entries, []Stream{stream("a.b", "")}, []Outcome{{Operation: "GET /a.b", Stream: "a.b"}})
	require.Len(t, gone, 1)
	require.Equal(t, "a.c", gone[0].Stream)
	require.Equal(t, Vanished, gone[0].Action)
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("streams:\n  a.b: {mode: history}\n  x.y:\n    imported: {from: a}\n"))
	f.Add([]byte("a: &a\n  b: 1\nstreams: &s\n  a.b: !!map {}\n  c.d: *a\n"))
	f.Add([]byte("a: &a\n  b: 1\nstreams: &s\n  a.b: !!map { }"))
	f.Add([]byte("# c\r\nstreams:\r\n  a.b: {mode: history}\r\n"))
	f.Add([]byte("\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		streams := []Stream{stream("a.b", "x"), stream("x.y", "z")}
		out, _, err := Merge("f", data, streams)
		if err != nil {
			return
		}
		again, _, err := Merge("f", out, streams)
		require.NoError(t, err, string(out))
		require.Equal(t, string(out), string(again))
	})
}
