package signal

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

// neutral makes a text safe for a message. Errors quote text from a source, and chat
// services act on some of it: they notify everyone for @channel, make links of addresses,
// and read markup. Characters that they act on are replaced by ones that look alike; a dot in
// an address becomes (.).
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

// alike maps the characters that begin mentions, links and markup to their replacements.
var alike = map[rune]rune{
	'@': '＠', '<': '‹', '>': '›', '`': '\'', '*': '∗', '~': '∼', '|': '¦',
	'。': '.', '．': '.', '｡': '.', // which browsers take for dots
	'\t': ' ', '\r': ' ', '\n': '\n',
}

// inert is a character without effect; -1 for an invisible one.
func inert(r rune) rune {
	if other, ok := alike[r]; ok {
		return other
	}
	switch {
	case r == '\u2028', r == '\u2029', r == '\u0085':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // among them those that turn the direction of writing
		return -1
	}
	return r
}

// address is what may be the name of a host: labels with dots between them.
var address = regexp.MustCompile(`[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)+`)

// isAddress reports whether chat services make a link of a name: one that ends in a
// public suffix, or begins with www. Names of streams, as crm.leads, are none.
func isAddress(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "www.") || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true
	}
	for name != "" { // evil.com.crm holds one as well
		if suffix, icann := publicsuffix.PublicSuffix(name); icann && suffix != name {
			return true
		}
		i := strings.LastIndexByte(name, '.')
		name = name[:max(i, 0)]
	}
	return false
}
