package mysql

import "strings"

// MySQL refuses names with characters beyond U+FFFF, or with white space at the end. Each such character is stored as
// two characters of Unicode's private use area. No stored name exceeds MySQL's limit of 64 characters, because the
// original names have at most 63 bytes.
const privateUse, privateLow, privateEnd = 0xE000, 0xE800, 0xEC00

// escape returns a name as it is stored in the database.
func escape(name string) string {
	var b strings.Builder
	for i, r := range name {
		if r > 0xFFFF || r >= privateUse && r < privateEnd || r <= ' ' && i == len(name)-1 {
			b.WriteRune(privateUse + r>>10)
			r = privateLow + r&0x3FF
		}
		b.WriteRune(r)
	}
	return b.String()
}

// unescape is the inverse of escape.
func unescape(stored string) string {
	var b strings.Builder
	high := rune(-1)
	for _, r := range stored {
		switch {
		case high >= 0 && r >= privateLow && r < privateEnd:
			b.WriteRune(high<<10 + r - privateLow)
			high = -1
			continue
		case r >= privateUse && r < privateLow:
			high = r - privateUse
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// translate converts a statement of sqlmerge to the dialect of MySQL. It changes the names of columns, DELETE with an
// alias, and UPDATE with FROM. It also returns the tables that are not temporary.
func translate(q string) (string, []string) {
	switch {
	case strings.HasPrefix(q, "DELETE FROM "):
		if at := tokens(q, " AS t WHERE "); at[0] > 0 {
			q = "DELETE t" + q[len("DELETE"):]
		}
	case strings.HasPrefix(q, "UPDATE "):
		q = updateFrom(q)
	}
	return names(q)
}

// updateFrom moves the tables of an UPDATE's FROM clause in front of SET.
func updateFrom(q string) string {
	at := tokens(q, " SET ", " FROM ", " WHERE ")
	set, from, where := at[0], at[1], at[2]
	if set < 0 || from < set || where < from {
		return q
	}
	assignments := q[set+len(" SET ") : from]
	var b strings.Builder
	for rest := assignments; ; {
		comma := tokens(rest, ", ")[0]
		if comma < 0 {
			b.WriteString("t." + rest)
			break
		}
		b.WriteString("t." + rest[:comma] + ", ")
		rest = rest[comma+len(", "):]
	}
	return q[:set] + ", " + q[from+len(" FROM "):where] + " SET " + b.String() + q[where:]
}

// tokens returns where each token first occurs outside of parentheses and quotes, or -1.
func tokens(q string, wanted ...string) []int {
	at := make([]int, len(wanted))
	for i := range at {
		at[i] = -1
	}
	depth := 0
	for i := 0; i < len(q); i++ {
		switch c := q[i]; c {
		case '\'', '"', '`':
			i = quoteEnd(q, i)
			continue
		case '(':
			depth++
		case ')':
			depth--
		}
		for w, token := range wanted {
			if depth == 0 && at[w] < 0 && strings.HasPrefix(q[i:], token) {
				at[w] = i
			}
		}
	}
	return at
}

// quoteEnd returns the index of the quote that closes the quote at i.
func quoteEnd(q string, i int) int {
	c := q[i]
	for i++; i < len(q); i++ {
		if q[i] != c {
			continue
		}
		if i+1 == len(q) || q[i+1] != c {
			return i
		}
		i++
	}
	return len(q) - 1
}

// names escapes the column names in a statement. It also returns the table names, which are escaped already.
func names(q string) (string, []string) {
	var b strings.Builder
	var tables []string
	from := 0
	for i := 0; i < len(q); i++ {
		c := q[i]
		if c != '\'' && c != '"' && c != '`' {
			continue
		}
		end := quoteEnd(q, i)
		switch {
		case c == '"':
			b.WriteString(q[from:i] + escape(q[i:end]) + `"`)
			from = end + 1
		case c == '`' && strings.HasPrefix(q[end+1:], ".`"):
			i = end + 2
			end = quoteEnd(q, i)
			tables = append(tables, strings.ReplaceAll(q[i+1:end], "``", "`"))
		}
		i = end
	}
	b.WriteString(q[from:])
	return b.String(), tables
}
