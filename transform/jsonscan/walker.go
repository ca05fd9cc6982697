package jsonscan

// Walker scans a JSON value of any depth without recursion. It does not check for duplicate names, or the encoding of
// strings.
type Walker struct {
	stack []bool // the open objects and arrays; true for an object
}

// Value returns the position after the value at i, and its depth: 0 for a scalar, 1 for [7], 2 for [[7]]. If the JSON
// is invalid, the first result is the position of the error.
func (w *Walker) Value(b []byte, i int) (end, depth int, ok bool) {
	w.stack = w.stack[:0]
	for {
		switch b[i] {
		case '{', '[':
			object := b[i] == '{'
			w.stack = append(w.stack, object)
			depth = max(depth, len(w.stack))
			i = Space(b, i+1)
			if b[i] == '}' && object || b[i] == ']' && !object {
				break // the call of after() below reads the closing bracket
			}
			if object {
				if i, ok = w.name(b, i); !ok {
					return i, depth, false
				}
			}
			continue
		default:
			if i, ok = w.Scalar(b, i); !ok {
				return i, depth, false
			}
		}
		var more bool
		if i, more, ok = w.after(b, i); !ok || !more {
			return i, depth, ok
		}
	}
}

// The method after() reads what follows a value: closing brackets, or a comma and the name of the next member. It also
// reads the bracket that closes an empty object or array. If the second result is true, another value begins at the
// position that after() returns.
func (w *Walker) after(b []byte, i int) (next int, more, ok bool) {
	for len(w.stack) > 0 {
		object := w.stack[len(w.stack)-1]
		i = Space(b, i)
		switch {
		case b[i] == ',':
			i = Space(b, i+1)
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

// name scans the name of a member and the colon. It returns the position of the value.
func (w *Walker) name(b []byte, i int) (next int, ok bool) {
	if b[i] != '"' {
		return i, false
	}
	if i, ok = w.Scalar(b, i); !ok {
		return i, false
	}
	i = Space(b, i)
	if b[i] != ':' {
		return i, false
	}
	return Space(b, i+1), true
}

// Scalar returns the position after the scalar at i. If the scalar is invalid, it returns i and false.
func (w *Walker) Scalar(b []byte, i int) (end int, ok bool) {
	switch c := b[i]; {
	case c == '"':
		return LooseText(b, i+1)
	case c == '-' || IsDigit(c):
		end = Number(b, i)
	default:
		end = Literal(b, i)
	}
	if end < 0 {
		return i, false
	}
	return end, true
}
