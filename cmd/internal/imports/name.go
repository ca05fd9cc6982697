package imports

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

var (
	placeholder = regexp.MustCompile(`\{([^{}/]+)\}`)
	versionWord = regexp.MustCompile(`^v?[0-9]+([._][0-9]+)*$`)
	wordsOf     = regexp.MustCompile(`[a-z0-9]+`)
	possessive  = regexp.MustCompile(`['’]s\b`)
	plainName   = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
)

// genericWords are words that may be in the title of any API, so they are not used in names.
var genericWords = []string{"api", "apis", "rest", "restful", "http", "web", "json", "openapi", "open", "swagger", "postman", "collection", "the", "a", "of", "for", "and", "public", "reference", "documentation", "docs", "service", "server", "spec", "specification", "com", "www", "my", "copy", "official", "extension"}

// moduleOf derives the name of a module from the title of a document.
func moduleOf(title string) string {
	var words []string
	title = strings.ToLower(title)
	if at := possessive.FindStringIndex(title); at != nil && at[0] > 0 {
		title = title[:at[0]] // "Shop's API of orders": the name comes first
	}
	for _, w := range wordsOf.FindAllString(title, -1) {
		if !slices.Contains(genericWords, w) && !versionWord.MatchString(w) && len(words) < 2 {
			words = append(words, w)
		}
	}
	name := strings.TrimLeft(strings.Join(words, "_"), "0123456789_")
	if name == "" {
		return "api"
	}
	return name[:min(len(name), 20)]
}

// segments returns the parts of a path.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

func isPlace(segment string) bool { return strings.Contains(segment, "{") }

// lastWord returns the last part of a path. It skips placeholders.
func lastWord(path string) string {
	all := segments(path)
	for i := len(all) - 1; i >= 0; i-- {
		if !isPlace(all[i]) {
			return all[i]
		}
	}
	return ""
}

// resource derives the name of a resource from its path: invoice_lines from /api/v1/invoices/{id}/lines, and
// invoice from /invoices/{id}.
func resource(path string) string {
	all := segments(path)
	for len(all) > 1 && (slices.Contains(genericWords, strings.ToLower(all[0])) || versionWord.MatchString(strings.ToLower(all[0]))) {
		all = all[1:]
	}
	var words []string
	for i, s := range all {
		if isPlace(s) {
			continue
		}
		word := snake(s)
		if i+1 < len(all) && isPlace(all[i+1]) {
			word = singular(word)
		}
		if word != "" {
			words = append(words, word)
		}
	}
	name := strings.TrimLeft(strings.Join(words, "_"), "0123456789_")
	if name == "" {
		return "root"
	}
	return name
}

// snake returns a part of a path in snake case.
func snake(s string) string {
	s, _, _ = strings.Cut(s, ".json")
	name := schemas.Column(s)
	if plainName.MatchString(name) && !strings.ContainsAny(s, "-. ") {
		return name
	}
	return strings.Join(wordsOf.FindAllString(strings.ToLower(s), -1), "_")
}

func singular(w string) string {
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return strings.TrimSuffix(w, "ies") + "y"
	case strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "xes") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes"):
		return strings.TrimSuffix(w, "es")
	case strings.HasSuffix(w, "ss") || strings.HasSuffix(w, "us") || strings.HasSuffix(w, "is"):
		return w
	}
	return strings.TrimSuffix(w, "s")
}

// maxStream is the maximum length of a stream's name, so that the names of its child tables fit.
const maxStream = 48

// fit() shortens a name that is too long. The short name ends with a hash, so that two long names with the same
// beginning stay different.
func fit(name string) string {
	if len(name) <= maxStream {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:maxStream-9], "_") + "_" + hex.EncodeToString(sum[:4])
}
