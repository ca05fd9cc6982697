package jsonscan

// EscapeControls escapes raw control characters in the strings of a page, as JSON requires. The page needs no
// [Padding]. If the strings have no raw control characters, EscapeControls returns false.
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
