package imports

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
)

// Change is the result of a merge for one stream of the file.
type Change struct {
	Stream string
	Action string // added, changed or same
}

// The actions of a [Change].
const (
	Added   = "added"
	Changed = "changed"
	Same    = "same"
)

// HintTooLarge is the hint for a description with more streams than a configuration may have.
const HintTooLarge = "import a part of the description with --tag, --path or --only"

// Merge writes the streams into the text of a pipelines.yaml, or of a file that has only `streams:`. The text may
// be empty. In each stream, Merge writes only the block `imported:`; all other text stays the same. Existing
// streams stay in their place, and new streams are added after the last. The error is an [*Error].
func Merge(file string, data []byte, streams []Stream) ([]byte, []Change, error) {
	doc, err := parse(file, data)
	if err != nil {
		return nil, nil, err
	}
	var edits []edit
	var changes []Change
	var fresh []Stream
	for _, s := range streams {
		e, found := doc.entry(s.Name)
		if !found {
			fresh = append(fresh, s)
			changes = append(changes, Change{s.Name, Added})
			continue
		}
		ed, err := doc.replace(e, s)
		if err != nil {
			return nil, nil, err
		}
		action := Added
		if e.imported != nil {
			action = Changed
		}
		if doc.text(ed.from, ed.to) == ed.text {
			action = Same
		}
		edits = append(edits, ed)
		changes = append(changes, Change{s.Name, action})
	}
	if len(fresh) > 0 {
		ed, err := doc.append(fresh)
		if err != nil {
			return nil, nil, err
		}
		edits = append(edits, ed...)
	}
	out := apply(doc.data, edits)
	if words := len(lexer.Tokenize(out)); len(out) > maxFile || words > maxTokens {
		return nil, nil, &Error{File: file, Hint: HintTooLarge, Message: fmt.Sprintf(
			"with %d streams of the description, the configuration would have %d words and signs in %d bytes; it may have %d in %d bytes", len(streams), words, len(out), maxTokens, maxFile)}
	}
	if err := doc.checkUnchanged(out); err != nil {
		return nil, nil, err
	}
	if doc.crlf {
		out = strings.ReplaceAll(out, "\n", "\r\n")
	}
	return []byte(out), changes, nil
}

// edit replaces the bytes from..to with text.
type edit struct {
	from, to int
	text     string
}

// apply applies edits that do not overlap. It begins with the last edit, so that the offsets of the other edits stay
// valid. Two edits at one position keep their order.
func apply(s string, edits []edit) string {
	slices.Reverse(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(b.from, a.from) })
	for _, e := range edits {
		s = s[:e.from] + e.text + s[e.to:]
	}
	return s
}

// title is the first line of each block that Merge writes.
const title = "imported: # replaced by each import; keys beside it take precedence"

// replace returns the edit that writes the imported block of an existing stream.
func (d *document) replace(e entry, s Stream) (edit, error) {
	if e.imported != nil {
		return d.renew(*e.imported, s), nil
	}
	switch {
	case e.alias:
		return edit{}, d.fault(e.key, "stream %s is an alias, so nothing can be imported into it", s.Name)
	case e.flow && d.tagged(e):
		return edit{}, d.fault(e.key, "stream %s has a YAML tag, so nothing can be imported into it", s.Name)
	case e.flow:
		comma := ", "
		if e.empty {
			comma = ""
		}
		at := len(strings.TrimRight(d.data[:d.at(e.end)], " "))
		return edit{at, at, comma + "imported: " + flow(s.fields())}, nil
	case !e.mapping && !e.empty:
		return edit{}, d.fault(e.key, "stream %s is not a mapping", s.Name)
	}
	indent := strings.Repeat(" ", e.key.col+1)
	if e.mapping {
		indent = strings.Repeat(" ", e.first.col-1)
	}
	return d.after(e.key.line, d.block(s, indent)), nil
}

// tagged reports whether a mapping in braces has a tag, such as !!map. After a tag, the parser reports wrong positions.
func (d *document) tagged(e entry) bool {
	before, _, _ := strings.Cut(d.data[d.at(e.key):], "{")
	return strings.Contains(before, "!")
}

// after() returns the edit that inserts text below a line. The text must be whole lines.
func (d *document) after(line int, text string) edit {
	at := d.endOf(line)
	if at == len(d.data) && at > 0 && !strings.HasSuffix(d.data, "\n") {
		text = "\n" + text
	}
	return edit{at, at, text}
}

// renew returns the edit that replaces an existing block. The new block has the style of the old block.
func (d *document) renew(e entry, s Stream) edit {
	if e.flow {
		return edit{d.at(e.first), d.at(e.end) + 1, flow(s.fields())}
	}
	from := d.lines[e.key.line-1]
	return edit{from, d.endOf(d.lastLine(e.key)), d.block(s, strings.Repeat(" ", e.key.col-1))}
}

// block returns the imported block of a stream as whole lines.
func (d *document) block(s Stream, indent string) string {
	lines := append([]string{indent + title}, block(s.fields(), indent+"  ")...)
	return strings.Join(lines, "\n") + "\n"
}

// append returns the edits that add new streams after the existing ones.
func (d *document) append(streams []Stream) ([]edit, error) {
	indent := "  "
	if len(d.entries) > 0 {
		indent = strings.Repeat(" ", d.entries[0].key.col-1)
	}
	var b strings.Builder
	for _, s := range streams {
		b.WriteString(indent + quoted(s.Name) + ":\n" + d.block(s, indent+"  "))
	}
	switch h := d.streams; {
	case h == nil:
		text := "streams:\n" + b.String()
		if d.data != "" {
			text = "\n" + text
		}
		return []edit{d.after(len(d.lines), text)}, nil
	case h.alias || h.flow && !h.empty || !h.mapping && !h.empty:
		return nil, d.fault(h.key, "`streams` is in braces or is an alias; put each stream on its own line, then import again")
	case h.flow: // streams: {}
		return []edit{{d.at(h.first), d.at(h.end) + 1, ""}, d.after(h.end.line, b.String())}, nil
	}
	return []edit{d.after(d.lastLine(d.streams.key), b.String())}, nil
}

// checkUnchanged returns an error if a merge would change more than the imported blocks of the file. It compares the
// parsed contents.
func (d *document) checkUnchanged(merged string) error {
	before, err := others(d.data)
	if err != nil {
		return &Error{File: d.file, Message: sentence(err.Error())}
	}
	after, err := others(merged)
	if err != nil || !reflect.DeepEqual(before, after) {
		return &Error{File: d.file, Message: "its layout does not allow a safe change",
			Hint: "import with -o into another file, and copy the streams you need"}
	}
	return nil
}

// others() returns the parsed content of a file without its imported blocks.
func others(text string) (map[string]any, error) {
	var all map[string]any
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	streams, ok := all["streams"].(map[string]any)
	if !ok {
		delete(all, "streams")
	}
	for name, v := range streams {
		if m, ok := v.(map[string]any); ok {
			delete(m, "imported")
			if len(m) > 0 {
				continue
			}
		} else if v != nil {
			continue
		}
		delete(streams, name)
	}
	if ok && len(streams) == 0 {
		delete(all, "streams")
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}
