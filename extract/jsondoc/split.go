package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Member is one member of an object.
type Member struct {
	Name  string
	Bytes []byte // name and value, as they are in the object
	Value []byte
}

var errNoObject = errors.New("not a JSON object")

// Scalar returns a number or a text as JSON in one form, so that equal values have equal bytes. It returns "" for other
// values.
func Scalar(value []byte) string {
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

// SplitObject returns the members of an object.
func SplitObject(object []byte) ([]Member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var all []Member
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
		all = append(all, Member{Name: text, Bytes: object[begin:d.InputOffset()], Value: value})
	}
	return all, nil
}

// SplitArray returns the elements of an array.
func SplitArray(array []byte) ([]json.RawMessage, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(array, &all); err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return all, nil
}

// IsScalar reports whether value is neither an object nor an array.
func IsScalar(value []byte) bool { return len(value) > 0 && value[0] != '{' && value[0] != '[' }

// Canonical returns a text or number in the form of [Scalar], and any other value unchanged.
func Canonical(value []byte) []byte {
	if s := Scalar(value); s != "" {
		return []byte(s)
	}
	return value
}
