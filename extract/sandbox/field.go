package sandbox

import (
	"bytes"
	"encoding/json"
	"slices"
)

// refield renames, replaces or removes the members named f.Field of a JSON body, at any depth. All other bytes stay
// the same.
func (f Fault) refield(body []byte) []byte {
	if !json.Valid(body) {
		return body
	}
	r := refielder{Fault: f, in: body}
	r.value()
	return r.out
}

type refielder struct {
	Fault
	in  []byte
	at  int
	out []byte
}

func (r *refielder) value() {
	r.space()
	switch r.in[r.at] {
	case '{':
		r.object()
	case '[':
		r.list()
	default:
		end := r.at + 1
		if r.in[r.at] == '"' {
			end = r.text()
		} else {
			for end < len(r.in) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(r.in[end])) {
				end++
			}
		}
		r.out = append(r.out, r.in[r.at:end]...)
		r.at = end
	}
}

func (r *refielder) space() {
	for bytes.ContainsRune([]byte(" \t\r\n"), rune(r.in[r.at])) {
		r.at++
	}
}

func (r *refielder) text() int {
	end := r.at + 1
	for r.in[end] != '"' {
		if r.in[end] == '\\' {
			end++
		}
		end++
	}
	return end + 1
}

func (r *refielder) list() {
	r.each(']', func(int) { r.value() })
}

func (r *refielder) object() {
	r.each('}', func(before int) {
		end := r.text()
		name := r.in[r.at:end]
		r.at = end
		r.space()
		r.at++
		if string(name) != `"`+r.Field+`"` {
			r.out = append(append(r.out, name...), ':')
			r.value()
			return
		}
		if r.As != "" {
			name, _ = json.Marshal(r.As)
		}
		r.out = append(append(r.out, name...), ':')
		own := len(r.out)
		r.value()
		switch {
		case r.Value != "":
			r.out = append(r.out[:own], r.Value...)
		case r.As == "":
			r.out = r.out[:before]
		}
	})
}

// The method each() reads an array or object. It calls a function for each part, with the length of the output before
// the part and its comma. To leave the part out, the function cuts the output to this length.
func (r *refielder) each(end byte, part func(length int)) {
	r.out = append(r.out, r.in[r.at])
	r.at++
	for first := true; ; first = false {
		r.space()
		if r.in[r.at] == ',' {
			r.at++
			r.space()
		}
		if r.in[r.at] == end {
			break
		}
		length := len(r.out)
		if !first && !slices.Contains([]byte("[{"), r.out[length-1]) {
			r.out = append(r.out, ',')
		}
		part(length)
	}
	r.out = append(r.out, end)
	r.at++
}
