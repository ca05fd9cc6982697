package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// Likeness says what the records of a list have, so that a record which was asked
// for by itself can be made one of the list's: what the list does not show is
// left out, and nothing that the list shows may be lacking. Only where the two
// are the same byte by byte does a row not depend on who has brought it.
type Likeness struct {
	key      string
	volatile []string
	shown    map[string]bool        // members of some records
	always   []string               // members of all of them
	sample   map[string][]attribute // records, by the JSON of their key
	order    []string               // of the keys
}

// attribute is one member of an object: from its name to the end of its value.
type attribute struct {
	name  string
	bytes []byte // both
	value []byte
}

// errUnlike is why a record cannot be made one of a list's.
var errUnlike = errors.New("a record by itself is not what the list shows")

// NewLikeness looks at some records of a list, a JSON array, that are told apart
// by the member key. Members that are volatile need not be alike.
func NewLikeness(records []byte, key string, volatile []string) (*Likeness, error) {
	all, err := elements(records)
	if err != nil {
		return nil, err
	}
	l := &Likeness{key: key, volatile: volatile, shown: map[string]bool{}, sample: map[string][]attribute{}}
	seen := map[string]int{}
	for _, r := range all {
		ms, err := attributes(r)
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			l.shown[m.name] = true
			seen[m.name]++
		}
		if id := keyAmong(ms, key); id != "" {
			l.sample[id] = ms
			l.order = append(l.order, id)
		}
	}
	for name, n := range seen {
		if n == len(all) {
			l.always = append(l.always, name)
		}
	}
	slices.Sort(l.always)
	return l, nil
}

// Keys are those of the records that were looked at, JSON scalars, those with the
// most members first.
func (l *Likeness) Keys() []string {
	keys := slices.Clone(l.order)
	slices.SortStableFunc(keys, func(a, b string) int { return len(l.sample[b]) - len(l.sample[a]) })
	return keys
}

// Same reports whether a record that was asked for by itself, made one of the
// list's, is the one that was looked at.
func (l *Likeness) Same(record []byte) bool {
	fit, err := l.Fit(record)
	if err != nil {
		return false
	}
	ms, err := attributes(fit)
	if err != nil {
		return false
	}
	have := l.sample[keyAmong(ms, l.key)]
	if len(have) != len(ms) {
		return false
	}
	for _, m := range ms {
		same := func(o attribute) bool {
			return o.name == m.name && (bytes.Equal(o.bytes, m.bytes) || slices.Contains(l.volatile, m.name))
		}
		if !slices.ContainsFunc(have, same) {
			return false
		}
	}
	return true
}

// Fit makes a record that was asked for by itself one of the list's. Its members
// are left byte by byte as they came.
func (l *Likeness) Fit(record []byte) ([]byte, error) {
	ms, err := attributes(record)
	if err != nil {
		return nil, err
	}
	for _, name := range l.always {
		if !slices.ContainsFunc(ms, func(m attribute) bool { return m.name == name }) {
			return nil, fmt.Errorf("%w: it lacks %q", errUnlike, name)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(ms), func(m attribute) bool { return !l.shown[m.name] })
	if len(kept) == len(ms) {
		return record, nil
	}
	out := []byte{'{'}
	for i, m := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m.bytes...)
	}
	return append(out, '}'), nil
}

// KeyOf is the JSON scalar in a record that the column key is made of; "" where
// there is none.
func KeyOf(record []byte, key string) string {
	ms, err := attributes(record)
	if err != nil {
		return ""
	}
	return keyAmong(ms, key)
}

// keyAmong is the scalar under the member key, or under the one whose column has
// that name.
func keyAmong(ms []attribute, key string) string {
	for _, m := range ms {
		if m.name == key {
			return scalar(m.value)
		}
	}
	for _, m := range ms {
		if schemas.Column(m.name) == key {
			return scalar(m.value)
		}
	}
	return ""
}

// scalar is a JSON text or number as encoding/json would write it; "" for
// anything else.
func scalar(value []byte) string {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return ""
	}
	switch t := t.(type) {
	case string:
		out, _ := json.Marshal(t) // a text always marshals
		return string(out)
	case json.Number:
		return t.String()
	}
	return ""
}

// attributes are those of an object, in order, as they stand in it.
func attributes(object []byte) ([]attribute, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("read record: %w", errUnlike)
	}
	var all []attribute
	for d.More() {
		begin := d.InputOffset()
		for object[begin] != '"' {
			begin++ // commas and spaces
		}
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("read record: %w", err)
		}
		text, _ := name.(string)
		all = append(all, attribute{name: text, bytes: object[begin:d.InputOffset()], value: value})
	}
	return all, nil
}

// elements are those of an array.
func elements(array []byte) ([]json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(array, &all); err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return all, nil
}

// Disagree are the members which two objects have both, with scalars that differ.
func Disagree(a, b []byte) []string {
	as, err1 := attributes(a)
	bs, err2 := attributes(b)
	if err1 != nil || err2 != nil {
		return nil
	}
	var names []string
	for _, m := range as {
		for _, n := range bs {
			if n.name == m.name && plain(m.value) && plain(n.value) && !bytes.Equal(canonical(m.value), canonical(n.value)) {
				names = append(names, m.name)
			}
		}
	}
	return names
}

func plain(value []byte) bool { return len(value) > 0 && value[0] != '{' && value[0] != '[' }

// canonical is a scalar in one way of writing it.
func canonical(value []byte) []byte {
	if s := scalar(value); s != "" {
		return []byte(s)
	}
	return value
}
