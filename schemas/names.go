package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxName is the maximum length of the name of a table or column, in bytes. Postgres silently cuts longer names.
const MaxName = 63

// Column returns the column name of a field: the name of each member in its path, in snake case, with `__` between
// them. The parameter `source` is the JSON pointer of the field. Without a leading slash, it is the name of a top-level
// member. If it is "", the field is the value itself, and the column name is "value".
//
// Characters other than letters, digits and underscores separate words: first-name becomes first_name, @odata.etag
// becomes odata_etag. Some names get a suffix: `_` and the beginning of the pointer's SHA-256. A name needs the suffix
// if it is too long, is reserved, or has no letter or digit. A name also needs it if it has letters that a database or
// file system may fold or normalize.
//
// Two fields may still get the same column name, for example first-name and first_name. A [Namer] distinguishes them.
func Column(source string) string {
	name, exact := column(source)
	if exact {
		return name
	}
	return suffixed(name, source, shortHash)
}

// Namer assigns column names to the fields of one table. No two fields get the same name, even if case and accents are
// ignored, and a field keeps its name. A Namer uses the result of [Column] if no other field has it. Otherwise it adds
// a suffix. A Namer is not safe for concurrent use. // Invariant 17
type Namer struct {
	prefix  string
	columns map[string]string // by pointer
	taken   map[string]bool   // assigned and reserved names, without case and accents
	kept    map[string]bool   // see Keep
}

// NewNamer returns a Namer that knows the existing columns of a table. The map has the name of each column by the JSON
// pointer of its field (see [Source]). For columns that hold no field of the source, call [Namer.Reserve].
func NewNamer(known map[string]string) *Namer {
	n := &Namer{columns: make(map[string]string, len(known)), taken: make(map[string]bool, len(known))}
	for source, name := range known {
		n.columns[pointer(source)] = name
		n.taken[folded(name)] = true
	}
	return n
}

// NewTableNamer returns a Namer for the child tables of the table root. The field /items has the table root__items.
// The field /items/taxes has the table root__items__taxes; its pointer has no array indexes.
func NewTableNamer(root string, known map[string]string) *Namer {
	n := NewNamer(known)
	n.prefix = root + "__"
	return n
}

// Reserve reserves a name that no field of the source may use, for example the name of a column that a person has
// added.
func (n *Namer) Reserve(name string) { n.taken[folded(name)] = true }

// Keep reserves a name for the first field for which [Column] returns exactly this name. It is called for key columns:
// even if a field arrives first whose name differs only in an accent, the key column gets its own name.
func (n *Namer) Keep(name string) {
	if !n.taken[folded(name)] {
		if n.kept == nil {
			n.kept = map[string]bool{}
		}
		n.kept[name], n.taken[folded(name)] = true, true
	}
}

// Name returns the column name of a field. The parameter `source` is the JSON pointer or the name of the field. Every
// call for a field returns the same name.
func (n *Namer) Name(source string) string {
	p := pointer(source)
	if name, ok := n.columns[p]; ok {
		return name
	}
	name := n.free(p)
	n.columns[p] = name
	n.taken[folded(name)] = true
	return name
}

func (n *Namer) free(p string) string {
	base, exact := column(p)
	base = n.prefix + base
	if exact && len(base) <= MaxName && (n.kept[base] || !n.taken[folded(base)]) {
		delete(n.kept, base)
		return base
	}
	for digits := shortHash; ; digits += shortHash {
		if name := suffixed(base, p, digits); !n.taken[folded(name)] {
			return name
		}
	}
}

// folded returns a name without case and accents. MySQL ignores both in the names of columns, and reads ß as s.
func folded(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r == 'ß':
			r = 's'
		case r >= utf8.RuneSelf && unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic):
			r, _ = utf8.DecodeRuneInString(norm.NFD.String(string(r)))
		}
		b.WriteRune(r)
	}
	return b.String()
}

// systemColumns are names that a database reserves in every table, quoted or not.
var systemColumns = map[string]bool{
	"ctid": true, "xmin": true, "xmax": true, "cmin": true, "cmax": true, "tableoid": true, "rowid": true,
}

func column(source string) (name string, exact bool) {
	if source == "" {
		return "value", true
	}
	exact = true
	var b strings.Builder
	for i, member := range strings.Split(pointer(source)[1:], "/") {
		if i > 0 {
			b.WriteString("__")
		}
		if !snake(&b, unescape(member)) {
			exact = false
		}
	}
	name = b.String()
	if strings.HasPrefix(name, "_penstock_") {
		return name[1:], false
	}
	return name, exact && len(name) <= MaxName && !systemColumns[name]
}

// snake writes the name of a member in snake case. Separators become one underscore, because `__` may occur only
// between members. snake returns false if the name needs a suffix.
func snake(b *strings.Builder, member string) (exact bool) {
	exact = utf8.ValidString(member)
	words := false
	last := rune(0) // last rune written; 0 for none
	apart := false  // a separator followed the last rune written
	runes := []rune(member)
	write := func(r rune) {
		if apart && last != 0 && last != '_' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
		last, apart = r, false
	}
	for i, r := range runes {
		switch {
		case r == '_' && last != '_' && !apart:
			if i == len(runes)-1 && i > 0 {
				exact = false // together with `__`, there would be three underscores before the next member
			}
			write(r)
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			exact = exact && stable(r)
			if wordStart(runes, i) {
				apart = true
			}
			write(unicode.ToLower(r))
			words = true
		case r == '_':
			exact = false // `__` would look like the end of the member
			apart = true
		default:
			apart = true
		}
	}
	if last == 0 {
		b.WriteByte('_')
	}
	return exact && words
}

// stable reports whether the lower-case form of r is safe in a name: case folding and Unicode normalization must
// leave it unchanged, and distinct from all other letters.
func stable(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return true
	case unicode.IsMark(r), r == 'İ', r == 'ı', r == 'ſ', r == 'ς':
		return false
	}
	return unicode.Is(unicode.Latin, r) && r >= 'À' && r <= '\u024f' ||
		unicode.Is(unicode.Greek, r) && r >= '\u0386' && r <= '\u03ce' ||
		unicode.Is(unicode.Cyrillic, r) && r <= '\u04ff' ||
		r >= '\u4e00' && r <= '\u9fff' || // Han
		r >= '\uac00' && r <= '\ud7a3' // Hangul syllables
}

// wordStart reports whether a word begins at runes[i], for example at I in userID and at B in HTMLBody.
func wordStart(runes []rune, i int) bool {
	if i == 0 || !unicode.IsUpper(runes[i]) {
		return false
	}
	before := runes[i-1]
	if unicode.IsUpper(before) {
		return i+1 < len(runes) && unicode.IsLower(runes[i+1])
	}
	return unicode.IsLower(before) || unicode.IsDigit(before)
}

const shortHash = 8 // hexadecimal digits of a suffix

func suffixed(name, source string, digits int) string {
	sum := sha256.Sum256([]byte(pointer(source)))
	hash := hex.EncodeToString(sum[:])[:min(digits, MaxName-1)]
	room := MaxName - 1 - len(hash)
	if len(name) > room {
		for room > 0 && !utf8.RuneStart(name[room]) {
			room--
		}
		name = name[:room]
	}
	return strings.TrimRight(name, "_") + "_" + hash
}

func pointer(source string) string {
	if source == "" || source[0] == '/' {
		return source
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(source)
}

func unescape(member string) string {
	if !strings.Contains(member, "~") {
		return member
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(member)
}
