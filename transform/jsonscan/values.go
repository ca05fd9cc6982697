package jsonscan

// Empty returns the position after the value at i if this value is empty: null, [], {}, or an object with only such
// values. The last argument limits how deep such objects may be nested.
func Empty(b []byte, i, levels int) (end int, ok bool) {
	switch b[i] {
	case 'n':
		end = Null(b, i)
		return end, end > 0
	case '[':
		end = Space(b, i+1)
		return end + 1, b[end] == ']'
	case '{':
		if i = Space(b, i+1); b[i] == '}' {
			return i + 1, true
		}
	default:
		return i, false
	}
	for levels > 0 && b[i] == '"' {
		end, _ = Text(b, i+1)
		if end < 0 {
			return i, false
		}
		if i = Space(b, end); b[i] != ':' {
			return i, false
		}
		if i, ok = Empty(b, Space(b, i+1), levels-1); !ok {
			return i, false
		}
		if i = Space(b, i); b[i] == '}' {
			return i + 1, true
		}
		if b[i] != ',' {
			return i, false
		}
		i = Space(b, i+1)
	}
	return i, false
}

// NoValue reports whether the value at i is null, an empty object, or an array with only nulls.
func NoValue(b []byte, i int) bool {
	switch b[i] {
	case 'n':
		return true
	case '{':
		return b[Space(b, i+1)] == '}'
	case '[':
		for i = Space(b, i+1); b[i] == 'n' || b[i] == ','; i = Space(b, i) {
			if b[i] == ',' {
				i++
			} else {
				i += len("null")
			}
		}
		return b[i] == ']'
	}
	return false
}

// BeginsObject reports whether the value at i is an object, or an array that begins with one.
func BeginsObject(b []byte, i int) bool {
	if b[i] == '[' {
		i = Space(b, i+1)
	}
	return b[i] == '{'
}

// ObjectAfterNulls skips the nulls of an array, beginning with the element at i. It reports whether the first element
// that is not null is an object.
func ObjectAfterNulls(b []byte, i int) bool {
	for Null(b, i) > 0 {
		if i = Space(b, i+4); b[i] != ',' {
			return false
		}
		i = Space(b, i+1)
	}
	return b[i] == '{'
}

// NumericNames reports whether all names of the object at i are numbers. Such an object is a map: its names are data.
func (w *Walker) NumericNames(b []byte, i int) bool {
	i = Space(b, i+1)
	if b[i] != '"' || !IsDigit(b[i+1]) {
		return false
	}
	for {
		end := digits(b, i+1)
		if b[i] != '"' || end == i+1 || b[end] != '"' {
			return false
		}
		i = Space(b, end+1)
		if b[i] != ':' {
			return false
		}
		var ok bool
		if i, _, ok = w.Value(b, Space(b, i+1)); !ok {
			return false
		}
		if i = Space(b, i); b[i] != ',' {
			return true
		}
		i = Space(b, i+1)
	}
}
