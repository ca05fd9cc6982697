package signal

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/publicsuffix"
)

// neutral makes a text safe for a message. Errors quote text from a source, and chat services act on some
// texts: they notify everyone for @channel, turn addresses into links, and render markup.
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
	'。': '.', '．': '.', '｡': '.', // browsers treat them as dots
	'\t': ' ', '\r': ' ', '\n': '\n',
}

func inert(r rune) rune {
	if other, ok := alike[r]; ok {
		return other
	}
	switch {
	case r == '\u2028', r == '\u2029', r == '\u0085':
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r): // including those that change the direction of writing
		return -1
	}
	return r
}

var address = regexp.MustCompile(`[\p{L}\p{N}_-]+(\.[\p{L}\p{N}_-]+)+`)

// isAddress reports whether a chat service may turn a name into a link: the name, or its beginning, ends in a
// public suffix, or begins with "www.". Names outside ASCII count too. Names of streams, for example
// crm.leads, do not.
func isAddress(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, "www.") || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return true
	}
	for name != "" { // the beginning may be an address too, as in evil.com.crm
		if suffix, icann := publicsuffix.PublicSuffix(name); icann && suffix != name {
			return true
		}
		i := strings.LastIndexByte(name, '.')
		name = name[:max(i, 0)]
	}
	return false
}
