package extract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// RecordForm is the form in which a list shows its records. [RecordForm.Fit] converts a single record, requested at
// its own address, into this form. If the result equals the listed record byte by byte, both lead to the same row.
type RecordForm struct {
	key      string
	volatile []string
	shown    map[string]bool
	always   []string
	sample   map[string][]attribute // the members of each analyzed record, by its key as a JSON scalar
	order    []string
}

type attribute struct {
	name  string
	bytes []byte
	value []byte
}

var errUnlike = errors.New("the single record differs from the list")

// NewRecordForm analyzes some records of a list, given as a JSON array. key is the key column that identifies a
// record: see [KeyOf]. The values of the volatile members may differ between two readings.
func NewRecordForm(records []byte, key string, volatile []string) (*RecordForm, error) {
	all, err := elements(records)
	if err != nil {
		return nil, err
	}
	l := &RecordForm{key: key, volatile: volatile, shown: map[string]bool{}, sample: map[string][]attribute{}}
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

// Keys returns the keys of the analyzed records as JSON scalars. Records with the most members come first.
func (l *RecordForm) Keys() []string {
	keys := slices.Clone(l.order)
	slices.SortStableFunc(keys, func(a, b string) int { return len(l.sample[b]) - len(l.sample[a]) })
	return keys
}

// Same reports whether a single record, after Fit, equals the analyzed record with the same key. Volatile members may
// differ.
func (l *RecordForm) Same(record []byte) bool {
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

// Fit converts a single record into the form of the list: it removes members that the list does not show. It returns
// an error if the record lacks a member of all listed records. The other members stay unchanged byte by byte.
func (l *RecordForm) Fit(record []byte) ([]byte, error) {
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

// KeyOf returns the record's value for a key column as a JSON scalar, or "" if there is none. The member has the
// column's name, or the column's name is derived from the member's name.
func KeyOf(record []byte, key string) string {
	ms, err := attributes(record)
	if err != nil {
		return ""
	}
	return keyAmong(ms, key)
}

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

func scalar(value []byte) string {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	t, err := d.Token()
	if err != nil {
		return ""
	}
	switch t := t.(type) {
	case string:
		out, _ := json.Marshal(t)
		return string(out)
	case json.Number:
		return t.String()
	}
	return ""
}

func attributes(object []byte) ([]attribute, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("read record: %w", errUnlike)
	}
	var all []attribute
	for d.More() {
		begin := d.InputOffset()
		for object[begin] != '"' {
			begin++
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

func elements(array []byte) ([]json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(array, &all); err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return all, nil
}

// DifferingMembers returns the names of members that are scalars in both objects, and differ.
func DifferingMembers(a, b []byte) []string {
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

func canonical(value []byte) []byte {
	if s := scalar(value); s != "" {
		return []byte(s)
	}
	return value
}
