package load

import "fmt"

// AppendQuoted appends a text to b as a JSON string with as few escapes as possible. Package transform writes texts
// in the same way in the column that links a child row to its parent.
func AppendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		b = append(b, '\\')
		switch c {
		case '"', '\\':
			b = append(b, c)
		case '\b':
			b = append(b, 'b')
		case '\t':
			b = append(b, 't')
		case '\n':
			b = append(b, 'n')
		case '\f':
			b = append(b, 'f')
		case '\r':
			b = append(b, 'r')
		default:
			b = fmt.Appendf(b, "u%04x", c)
		}
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
