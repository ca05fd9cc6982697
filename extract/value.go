package extract

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

type value struct {
	start, end int
	node       int // index of the node of an object or array; -1 for other values
}

var missing = value{node: -1}

func (v value) ok() bool { return v.end > v.start }

func (d *doc) root() value { return d.container(0) }

func (d *doc) container(n int) value {
	return value{start: int(d.nodes[n].start), end: int(d.nodes[n].end), node: n}
}

func (d *doc) raw(v value) []byte { return d.b[v.start:v.end] }

// kind returns the first byte of v, which shows its type. It returns 0 for a missing value.
func (d *doc) kind(v value) byte {
	if !v.ok() {
		return 0
	}
	return d.b[v.start]
}

func (d *doc) isObject(v value) bool { return d.kind(v) == '{' }
func (d *doc) isList(v value) bool   { return d.kind(v) == '[' }

func (d *doc) void(v value) bool {
	switch d.kind(v) {
	case 'n':
		return true
	case '"':
		return v.end-v.start == 2
	case '{', '[':
		return skipSpace(d.b, v.start+1) == v.end-1
	}
	return false
}

// envelope scans a body and checks the JSON outside the records. Of an array, it checks only the commas between the
// elements.
func (d *doc) envelope(b []byte) error {
	if err := d.scan(b); err != nil {
		return err
	}
	d.check(d.root(), 0)
	return d.err
}

const duplicateDepth = 2

func (d *doc) check(v value, depth int) {
	switch {
	case d.isObject(v):
		if depth <= duplicateDepth {
			d.checkDuplicates(v)
		}
		for _, m := range d.members(v) {
			d.check(m, depth+1)
		}
	case d.isList(v):
		for range d.elements(v) {
		}
	}
}

// checkDuplicates reports an error if the object v has a member twice with different values, and a value is an array.
// If penstock read only one of them, the records in the other would be lost.
func (d *doc) checkDuplicates(v value) {
	if !d.holdsList(v) {
		return
	}
	repeated := d.repeated(v)
	if len(repeated) == 0 {
		return
	}
	first := map[string]value{}
	for name, m := range d.members(v) {
		if _, again := slices.BinarySearch(repeated, fnv1a(fnvBasis, name)); !again {
			continue
		}
		o, again := first[string(name)]
		if !again {
			first[string(name)] = m
			continue
		}
		if (d.isList(m) || d.isList(o)) && !bytes.Equal(d.raw(m), d.raw(o)) {
			d.fail(m.start, fmt.Sprintf("duplicate member %q", unquote(name)))
			return
		}
	}
}

func (d *doc) holdsList(v value) bool {
	for child, end := v.node+1, int(d.nodes[v.node].next); child < end; child = int(d.nodes[child].next) {
		if d.b[d.nodes[child].start] == '[' {
			return true
		}
	}
	return false
}

// repeated returns the hashes of names that v has twice. It sorts hashes, because a map of a million names would take
// ten times as much memory and time. // Invariant 6
func (d *doc) repeated(v value) (twice []uint64) {
	d.hashes = d.hashes[:0]
	for name := range d.members(v) {
		d.hashes = append(d.hashes, fnv1a(fnvBasis, name))
	}
	slices.Sort(d.hashes)
	for i, h := range d.hashes {
		if i > 0 && h == d.hashes[i-1] && (len(twice) == 0 || twice[len(twice)-1] != h) {
			twice = append(twice, h)
		}
	}
	if cap(d.hashes) > keepNodes {
		d.hashes = nil
	}
	return twice
}

func (d *doc) fail(at int, what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s at offset %d", what, at)
	}
}

// members yields each name as raw JSON without quotes. An error ends the iteration and is stored in d.err.
func (d *doc) members(v value) iter.Seq2[[]byte, value] {
	return func(yield func([]byte, value) bool) {
		if !d.isObject(v) {
			return
		}
		child := v.node + 1
		for i, first := v.start+1, true; ; first = false {
			i = skipSpace(d.b, i)
			if first && d.b[i] == '}' {
				return
			}
			end := stringEnd(d.b, i)
			if end < 0 {
				d.fail(i, "no member name")
				return
			}
			name := d.b[i+1 : end-1]
			if i = skipSpace(d.b, end); d.b[i] != ':' {
				d.fail(i, "no colon")
				return
			}
			m, next, ok := d.valueAt(skipSpace(d.b, i+1), child)
			if !ok || !yield(name, m) {
				return
			}
			child = next
			if i = skipSpace(d.b, m.end); d.b[i] == '}' {
				d.close(v, i)
				return
			} else if d.b[i] != ',' {
				d.fail(i, "no comma")
				return
			}
			i++
		}
	}
}

func (d *doc) quoted(name []byte) []byte {
	at := cap(d.b) - cap(name) // name is a part of d.b, and their capacities end at the same byte
	return d.b[at-1 : at+len(name)+1 : at+len(name)+1]
}

func (d *doc) elements(v value) iter.Seq[value] {
	return func(yield func(value) bool) {
		child := v.node + 1
		for i, first := v.start+1, true; ; first = false {
			i = skipSpace(d.b, i)
			if first && d.b[i] == ']' {
				return
			}
			e, next, ok := d.valueAt(i, child)
			if !ok || !yield(e) {
				return
			}
			child = next
			if i = skipSpace(d.b, e.end); d.b[i] == ']' {
				d.close(v, i)
				return
			} else if d.b[i] != ',' {
				d.fail(i, "no comma")
				return
			}
			i++
		}
	}
}

func (d *doc) count(v value) int {
	n := 0
	for child, end := v.node+1, int(d.nodes[v.node].next); child < end; child = int(d.nodes[child].next) {
		n++
	}
	return n
}

func (d *doc) close(v value, at int) {
	if at != v.end-1 {
		d.fail(at, "unexpected end")
	}
}

func (d *doc) valueAt(i, child int) (v value, next int, ok bool) {
	switch d.b[i] {
	case '{', '[':
		if child >= len(d.nodes) || int(d.nodes[child].start) != i {
			d.fail(i, "misplaced value")
			return missing, child, false
		}
		return d.container(child), int(d.nodes[child].next), true
	case '"':
		if end := stringEnd(d.b, i); end > 0 {
			return value{i, end, -1}, child, true
		}
	default:
		if end := literalEnd(d.b, i); end > 0 {
			return value{i, end, -1}, child, true
		}
	}
	d.fail(i, "invalid value")
	return missing, child, false
}

func stringEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

func literalEnd(b []byte, i int) int {
	end := i
	for end < len(b) && !delimiter(b[end]) {
		end++
	}
	switch string(b[i:end]) {
	case "true", "false", "null":
		return end
	}
	if !isNumber(b[i:end]) {
		return -1
	}
	return end
}

func delimiter(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

func isNumber(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	whole := digits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return false
	}
	if b = b[whole:]; len(b) > 0 && b[0] == '.' {
		n := digits(b[1:])
		if n == 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && b[0]|0x20 == 'e' {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := digits(b)
		return n > 0 && n == len(b)
	}
	return len(b) == 0
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && b[n]-'0' < 10 {
		n++
	}
	return n
}

func (d *doc) get(v value, name string) value {
	if !d.isObject(v) {
		return missing
	}
	for k, m := range d.members(v) {
		if nameIs(k, name) {
			return m
		}
	}
	return missing
}

// column returns the member with the name of the column. If there is none, it returns one whose name becomes that
// column name.
func (d *doc) column(v value, column string) value {
	if m := d.get(v, column); m.ok() {
		return m
	}
	_, m := d.ofColumn(v, column)
	return m
}

func (d *doc) ofColumn(v value, column string) (name string, m value) {
	if !d.isObject(v) {
		return "", missing
	}
	for k, m := range d.members(v) {
		if name := unquote(k); schemas.Column(name) == column {
			return name, m
		}
	}
	return "", missing
}

func nameIs(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == name
	}
	return unquote(raw) == name
}

func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	q := append(append([]byte{'"'}, raw...), '"')
	s, err := jsontext.AppendUnquote(nil, q)
	if err != nil {
		return string(raw)
	}
	return string(s)
}

func (d *doc) text(v value) string {
	if d.kind(v) != '"' {
		return ""
	}
	return unquote(d.b[v.start+1 : v.end-1])
}

var errNoInteger = errors.New("not an integer")

// integer also accepts numbers in quotes, because servers echo query parameters as strings.
func (d *doc) integer(v value) (int64, error) {
	raw := d.raw(v)
	switch d.kind(v) {
	case 0:
		return 0, errNoInteger
	case '"':
		raw = raw[1 : len(raw)-1]
	}
	return strconv.ParseInt(string(raw), 10, 64)
}
