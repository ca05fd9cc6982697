package transform

import "math/bits"

// walker scans a JSON value of any depth without recursion. It does not check for duplicate names, or the encoding of
// strings.
type walker struct {
	stack []bool // the open objects and arrays; true for an object
}

// value returns the position after the value at i, and its depth: 0 for a scalar, 1 for [7], 2 for [[7]]. If the JSON
// is invalid, end is the position of the error.
func (w *walker) value(b []byte, i int) (end, depth int, ok bool) {
	w.stack = w.stack[:0]
	for {
		switch b[i] {
		case '{', '[':
			object := b[i] == '{'
			w.stack = append(w.stack, object)
			depth = max(depth, len(w.stack))
			i = space(b, i+1)
			if b[i] == '}' && object || b[i] == ']' && !object {
				break // after reads the closing bracket
			}
			if object {
				if i, ok = w.name(b, i); !ok {
					return i, depth, false
				}
			}
			continue
		default:
			if i, ok = w.scalar(b, i); !ok {
				return i, depth, false
			}
		}
		var more bool
		if i, more, ok = w.after(b, i); !ok || !more {
			return i, depth, ok
		}
	}
}

// after continues at the end of a value, or at the bracket that closes an empty object or array. If more is true,
// another value begins at next.
func (w *walker) after(b []byte, i int) (next int, more, ok bool) {
	for len(w.stack) > 0 {
		object := w.stack[len(w.stack)-1]
		i = space(b, i)
		switch {
		case b[i] == ',':
			i = space(b, i+1)
			if object {
				i, ok = w.name(b, i)
				return i, ok, ok
			}
			return i, true, true
		case b[i] == '}' && object, b[i] == ']' && !object:
			i++
			w.stack = w.stack[:len(w.stack)-1]
		default:
			return i, false, false
		}
	}
	return i, false, true
}

// name scans the name of a member and the colon. next is the position of the value.
func (w *walker) name(b []byte, i int) (next int, ok bool) {
	if b[i] != '"' {
		return i, false
	}
	if i, ok = w.scalar(b, i); !ok {
		return i, false
	}
	i = space(b, i)
	if b[i] != ':' {
		return i, false
	}
	return space(b, i+1), true
}

func (w *walker) scalar(b []byte, i int) (end int, ok bool) {
	switch c := b[i]; {
	case c == '"':
		return looseText(b, i+1)
	case c == '-' || isDigit(c):
		end = number(b, i)
	default:
		end = literal(b, i)
	}
	if end < 0 {
		return i, false
	}
	return end, true
}

// looseText is like [text], but does not check the encoding.
func looseText(b []byte, i int) (end int, ok bool) {
	for {
		m := special(load(b, i))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		switch b[i] {
		case '"':
			return i + 1, true
		case '\\':
			if _, n := escape(b, i); n == refuseSyntax {
				return i, false
			}
			i += 2
		default:
			return i, false
		}
	}
}
