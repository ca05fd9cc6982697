package jsondoc

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Value is a part of a body: the bytes from start to end.
type Value struct {
	Start, End int
	node       int // index of the node of an object or array; -1 for other values
}

// Missing is the value of a member that does not exist.
var Missing = Value{node: -1}

// OK returns false for a missing value.
func (v Value) OK() bool { return v.End > v.Start }

// Nested reports whether v is an object or an array.
func (v Value) Nested() bool { return v.node >= 0 }

// Bytes returns the body, or nil if there is none.
func (d *Doc) Bytes() []byte { return d.b }

// Reset releases the body. If the body was large, Reset also frees the memory of its nodes.
func (d *Doc) Reset() {
	if d.b = nil; cap(d.nodes) > keepNodes {
		d.nodes = nil
	}
}

// keepNodes limits the nodes that an unused doc keeps in memory: 12 MiB.
const keepNodes = 1 << 20

// Err returns the first error that a walk found. The walk ended there.
func (d *Doc) Err() error { return d.err }

// Fail sets the error of the walk, unless the walk already has an error.
func (d *Doc) Fail(at int, what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s at offset %d", what, at)
	}
}

// Root returns the whole body.
func (d *Doc) Root() Value { return d.container(0) }

func (d *Doc) container(n int) Value {
	return Value{Start: int(d.nodes[n].start), End: int(d.nodes[n].end), node: n}
}

// Raw returns the bytes of v.
func (d *Doc) Raw(v Value) []byte { return d.b[v.Start:v.End] }

// Kind returns the first byte of v, which shows its type. It returns 0 for a missing value.
func (d *Doc) Kind(v Value) byte {
	if !v.OK() {
		return 0
	}
	return d.b[v.Start]
}

// IsObject reports whether v is an object.
func (d *Doc) IsObject(v Value) bool { return d.Kind(v) == '{' }

// IsList reports whether v is an array.
func (d *Doc) IsList(v Value) bool { return d.Kind(v) == '[' }

// IsFalse reports whether v is false or 0, with or without quotes.
func (d *Doc) IsFalse(v Value) bool {
	switch strings.ToLower(strings.Trim(string(d.Raw(v)), `"`)) {
	case "false", "0":
		return true
	}
	return false
}

// Inside returns the first byte inside the object or array v, after spaces. If v is empty, this is the closing bracket.
func (d *Doc) Inside(v Value) byte { return d.b[skipSpace(d.b, v.Start+1)] }

// IsEmpty reports whether v is null, "", {} or [].
func (d *Doc) IsEmpty(v Value) bool {
	switch d.Kind(v) {
	case 'n':
		return true
	case '"':
		return v.End-v.Start == 2
	case '{', '[':
		return skipSpace(d.b, v.Start+1) == v.End-1
	}
	return false
}

// Parse scans a body and checks its JSON. In an array, it checks only the commas between the elements.
func (d *Doc) Parse(b []byte) error {
	if err := d.Scan(b); err != nil {
		return err
	}
	d.check(d.Root(), 0)
	return d.err
}

const duplicateDepth = 2

func (d *Doc) check(v Value, depth int) {
	switch {
	case d.IsObject(v):
		if depth <= duplicateDepth {
			d.checkDuplicates(v)
		}
		for _, m := range d.Members(v) {
			d.check(m, depth+1)
		}
	case d.IsList(v):
		for range d.Elements(v) {
		}
	}
}

// checkDuplicates reports an error if the object v has two members with the same name and different values, and one of
// these values is an array. A reader that takes only one of the two members would lose the elements of the other
// member.
func (d *Doc) checkDuplicates(v Value) {
	if !d.holdsList(v) {
		return
	}
	seed := maphash.MakeSeed()
	repeated := d.repeated(v, seed)
	if len(repeated) == 0 {
		return
	}
	first := map[string]Value{}
	for name, m := range d.Members(v) {
		if _, again := slices.BinarySearch(repeated, maphash.Bytes(seed, name)); !again {
			continue
		}
		o, again := first[string(name)]
		if !again {
			first[string(name)] = m
			continue
		}
		if (d.IsList(m) || d.IsList(o)) && !bytes.Equal(d.Raw(m), d.Raw(o)) {
			d.Fail(m.Start, fmt.Sprintf("duplicate member %q", Unquote(name)))
			return
		}
	}
}

func (d *Doc) holdsList(v Value) bool {
	for child, end := v.node+1, int(d.nodes[v.node].next); child < end; child = int(d.nodes[child].next) {
		if d.b[d.nodes[child].start] == '[' {
			return true
		}
	}
	return false
}

// repeated returns the hashes of the names that occur twice in v. It sorts hashes, because a map of a million names
// would take ten times as much memory and time. // Invariant 6
func (d *Doc) repeated(v Value, seed maphash.Seed) (twice []uint64) {
	d.hashes = d.hashes[:0]
	for name := range d.Members(v) {
		d.hashes = append(d.hashes, maphash.Bytes(seed, name))
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

// Members yields each name as raw JSON without quotes. An error ends the iteration and is stored in d.err.
func (d *Doc) Members(v Value) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		if !d.IsObject(v) {
			return
		}
		child := v.node + 1
		for i, first := v.Start+1, true; ; first = false {
			i = skipSpace(d.b, i)
			if first && d.b[i] == '}' {
				return
			}
			end := stringEnd(d.b, i)
			if end < 0 {
				d.Fail(i, "no member name")
				return
			}
			name := d.b[i+1 : end-1]
			if i = skipSpace(d.b, end); d.b[i] != ':' {
				d.Fail(i, "no colon")
				return
			}
			m, next, ok := d.valueAt(skipSpace(d.b, i+1), child)
			if !ok || !yield(name, m) {
				return
			}
			child = next
			if i = skipSpace(d.b, m.End); d.b[i] == '}' {
				d.close(v, i)
				return
			} else if d.b[i] != ',' {
				d.Fail(i, "no comma")
				return
			}
			i++
		}
	}
}

// Quoted returns a name from [Doc.Members] with its quotes.
func (d *Doc) Quoted(name []byte) []byte {
	at := cap(d.b) - cap(name) // name is a part of d.b, and their capacities end at the same byte
	return d.b[at-1 : at+len(name)+1 : at+len(name)+1]
}

// Elements yields the elements of an array. An error ends the iteration and is stored in d.err.
func (d *Doc) Elements(v Value) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		child := v.node + 1
		for i, first := v.Start+1, true; ; first = false {
			i = skipSpace(d.b, i)
			if first && d.b[i] == ']' {
				return
			}
			e, next, ok := d.valueAt(i, child)
			if !ok || !yield(e) {
				return
			}
			child = next
			if i = skipSpace(d.b, e.End); d.b[i] == ']' {
				d.close(v, i)
				return
			} else if d.b[i] != ',' {
				d.Fail(i, "no comma")
				return
			}
			i++
		}
	}
}

// Shorten returns the body, in which the list has only its first n elements.
func (d *Doc) Shorten(list Value, n int) []byte {
	end := list.Start + 1
	for v := range d.Elements(list) {
		if n--; n < 0 {
			break
		}
		end = v.End
	}
	return slices.Concat(d.b[:end], d.b[list.End-1:])
}

// Count returns how many objects and arrays are directly inside v.
func (d *Doc) Count(v Value) int {
	n := 0
	for child, end := v.node+1, int(d.nodes[v.node].next); child < end; child = int(d.nodes[child].next) {
		n++
	}
	return n
}

func (d *Doc) close(v Value, at int) {
	if at != v.End-1 {
		d.Fail(at, "unexpected end")
	}
}

func (d *Doc) valueAt(i, child int) (v Value, next int, ok bool) {
	switch d.b[i] {
	case '{', '[':
		if child >= len(d.nodes) || int(d.nodes[child].start) != i {
			d.Fail(i, "misplaced value")
			return Missing, child, false
		}
		return d.container(child), int(d.nodes[child].next), true
	case '"':
		if end := stringEnd(d.b, i); end > 0 {
			return Value{i, end, -1}, child, true
		}
	default:
		if end := literalEnd(d.b, i); end > 0 {
			return Value{i, end, -1}, child, true
		}
	}
	d.Fail(i, "invalid value")
	return Missing, child, false
}

// Get returns the first member of v with the given name, or [Missing].
func (d *Doc) Get(v Value, name string) Value {
	if !d.IsObject(v) {
		return Missing
	}
	for k, m := range d.Members(v) {
		if NameIs(k, name) {
			return m
		}
	}
	return Missing
}

// Text returns the text v without its quotes, or "" if v is not a text.
func (d *Doc) Text(v Value) string {
	if d.Kind(v) != '"' {
		return ""
	}
	return Unquote(d.b[v.Start+1 : v.End-1])
}

var errNoInteger = errors.New("not an integer")

// Integer returns v as an integer. It also accepts numbers in quotes, because servers echo query parameters as strings.
func (d *Doc) Integer(v Value) (int64, error) {
	raw := d.Raw(v)
	switch d.Kind(v) {
	case 0:
		return 0, errNoInteger
	case '"':
		raw = raw[1 : len(raw)-1]
	}
	return strconv.ParseInt(string(raw), 10, 64)
}
