package signal

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

// neutral makes a text safe for a message. Errors quote texts of a source, and chat services act on some texts:
// @channel notifies everyone, an address becomes a link, and markup is rendered.
func neutral(text string) string {
	text = strings.Map(inert, text)
	text = strings.NewReplacer("://", "(:)//", "](", "] (").Replace(text)
	return address.ReplaceAllStringFunc(text, func(name string) string {
		if !isAddress(name) {
			return name
		}
		return strings.ReplaceAll(name, ".", "(.)")
	})
}

var alike = map[rune]rune{
	'@': '＠', '<': '‹', '>': '›', '`': '\'', '*': '∗', '~': '∼', '|': '¦',
	'。': '.', '．': '.', '｡': '.', // browsers treat these characters as dots
	'\t': ' ', '\r': ' ', '\n': '\n',
}

func inert(r rune) rune {
	if other, ok := alike[r]; ok {
		return other
	}
	switch {
	case r == '\u2028', r == '\u2029', r == '\u0085':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // also characters that change the direction of writing
		return -1
	}
	return r
}

var address = regexp.MustCompile(`[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)+`)

// isAddress reports whether a chat service may turn a name into a link. A service may do so if the name, or the
// beginning of the name, ends in a public suffix (as in evil.com and evil.com.crm), or if the name begins with "www.".
// isAddress also returns true for names with characters outside ASCII. It returns false for names of streams such as
// crm.leads.
func isAddress(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "www.") || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true
	}
	for name != "" { // also try the beginning of the name: evil.com.crm begins with an address
		if suffix, icann := publicsuffix.PublicSuffix(name); icann && suffix != name {
			return true
		}
		i := strings.LastIndexByte(name, '.')
		name = name[:max(i, 0)]
	}
	return false
}
