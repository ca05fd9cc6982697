package jsonscan

// EscapeControls escapes raw control characters in strings, as JSON requires. It needs no padding. It returns false if
// there are none.
func EscapeControls(page []byte) (out []byte, ok bool) {
	inside := false
	for i := 0; i < len(page); i++ {
		c := page[i]
		switch {
		case inside && c == '\\' && i+1 < len(page) && page[i+1] >= ' ':
			out = append(out, c, page[i+1])
			i++
			continue
		case c == '"':
			inside = !inside
		case inside && c < ' ':
			ok = true
			out = append(out, `\u00`...)
			out = append(out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			continue
		}
		out = append(out, c)
	}
	return out, ok
}
