package transform

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	pointerEscapes  = strings.NewReplacer("~", "~0", "/", "~1")
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
)

func escapePointer(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return pointerEscapes.Replace(name)
}

// memberIn returns the value at a pointer. It returns nil if the value is missing or null. The record may have
// duplicate names and invalid UTF-8.
func memberIn(record []byte, pointer string) []byte {
	names := namesIn(pointer)
	d := jsontext.NewDecoder(bytes.NewBuffer(record),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for len(names) > 0 {
		if !enter(d, names[0]) {
			return nil
		}
		names = names[1:]
	}
	v, err := d.ReadValue()
	if err != nil || v.Kind() == 'n' {
		return nil
	}
	return v
}

func namesOf(record []byte) []string {
	d := jsontext.NewDecoder(bytes.NewBuffer(record),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	var names []string
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			break
		}
		names = append(names, t.String())
		if d.SkipValue() != nil {
			break
		}
	}
	return names
}

func namesIn(pointer string) []string {
	if pointer == "" {
		return nil
	}
	names := strings.Split(pointer[1:], "/")
	for i, name := range names {
		names[i] = unescapePointer.Replace(name)
	}
	return names
}

// enter moves d to the value of the member with this name in the next object. If the next value is an array, the name
// is an index.
func enter(d *jsontext.Decoder, name string) bool {
	if d.PeekKind() == '[' {
		return enterArray(d, name)
	}
	if d.PeekKind() != '{' {
		return false
	}
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if t.String() == name {
			return true
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return false
}

func enterArray(d *jsontext.Decoder, name string) bool {
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	index, err := strconv.Atoi(name)
	for ; err == nil && index > 0 && d.PeekKind() != ']'; index-- {
		err = d.SkipValue()
	}
	return err == nil && d.PeekKind() != ']'
}
