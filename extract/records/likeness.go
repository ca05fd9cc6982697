package records

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// RecordForm is the form in which a list shows its records. [RecordForm.Fit] converts a single record, requested at its
// own address, into this form. If the result equals the listed record byte by byte, the two give the same row.
type RecordForm struct {
	key      string
	volatile []string
	shown    map[string]bool
	always   []string
	sample   map[string][]jsondoc.Member // the members of each analyzed record, by its key as a JSON scalar
	order    []string
}

var errUnlike = errors.New("the single record differs from the list")

// NewRecordForm analyzes some records of a list, given as a JSON array. The argument `key` is the key column that
// identifies a record: see [KeyOf]. The values of the volatile members may differ between two readings.
func NewRecordForm(records []byte, key string, volatile []string) (*RecordForm, error) {
	all, err := jsondoc.SplitArray(records)
	if err != nil {
		return nil, err
	}
	l := &RecordForm{key: key, volatile: volatile, shown: map[string]bool{}, sample: map[string][]jsondoc.Member{}}
	seen := map[string]int{}
	for _, r := range all {
		ms, err := jsondoc.SplitObject(r)
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			l.shown[m.Name] = true
			seen[m.Name]++
		}
		if id := KeyAmong(ms, key); id != "" {
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
	ms, err := jsondoc.SplitObject(fit)
	if err != nil {
		return false
	}
	have := l.sample[KeyAmong(ms, l.key)]
	if len(have) != len(ms) {
		return false
	}
	for _, m := range ms {
		same := func(o jsondoc.Member) bool {
			return o.Name == m.Name && (bytes.Equal(o.Bytes, m.Bytes) || slices.Contains(l.volatile, m.Name))
		}
		if !slices.ContainsFunc(have, same) {
			return false
		}
	}
	return true
}

// Fit converts a single record into the form of the list: it removes members that the list does not show. The other
// members stay unchanged byte by byte. Fit returns an error if the record lacks a member that all listed records have.
func (l *RecordForm) Fit(record []byte) ([]byte, error) {
	ms, err := jsondoc.SplitObject(record)
	if err != nil {
		return nil, err
	}
	for _, name := range l.always {
		if !slices.ContainsFunc(ms, func(m jsondoc.Member) bool { return m.Name == name }) {
			return nil, fmt.Errorf("%w: it lacks %q", errUnlike, name)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(ms), func(m jsondoc.Member) bool { return !l.shown[m.Name] })
	if len(kept) == len(ms) {
		return record, nil
	}
	out := []byte{'{'}
	for i, m := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, m.Bytes...)
	}
	return append(out, '}'), nil
}

// KeyOf returns the record's value for a key column as a JSON scalar, or "" if there is none. The value comes from the
// member with the column's name, or from a member from whose name the column's name is derived.
func KeyOf(record []byte, key string) string {
	ms, err := jsondoc.SplitObject(record)
	if err != nil {
		return ""
	}
	return KeyAmong(ms, key)
}

// KeyAmong returns the scalar value of the member that identifies a record. The argument `key` is the name of this
// member, or of the column that it fills. KeyAmong returns "" if there is no such member.
func KeyAmong(ms []jsondoc.Member, key string) string {
	for _, m := range ms {
		if m.Name == key {
			return jsondoc.Scalar(m.Value)
		}
	}
	for _, m := range ms {
		if schemas.Column(m.Name) == key {
			return jsondoc.Scalar(m.Value)
		}
	}
	return ""
}

// DifferingMembers returns the names of members that are scalars in both objects, and differ.
func DifferingMembers(a, b []byte) []string {
	as, err1 := jsondoc.SplitObject(a)
	bs, err2 := jsondoc.SplitObject(b)
	if err1 != nil || err2 != nil {
		return nil
	}
	var names []string
	for _, m := range as {
		for _, n := range bs {
			if n.Name == m.Name && jsondoc.IsScalar(m.Value) && jsondoc.IsScalar(n.Value) && !bytes.Equal(jsondoc.Canonical(m.Value), jsondoc.Canonical(n.Value)) {
				names = append(names, m.Name)
			}
		}
	}
	return names
}
