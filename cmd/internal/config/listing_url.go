package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A template and a row make the address to which credentials are sent. The row may come from someone who must not
// choose the host, such as a customer who fills in a form. So the template has the host, and a field of the row
// fills in at most one label of it. In https://{ws}.example.com, the field ws is one label. // Invariant 10
var (
	label  = regexp.MustCompile(`^[A-Za-z0-9_-]{0,63}$`)
	labels = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,253}$`) // several labels, if `hosts:` limits the host
)

// urlText reads a URL. While it does, fill checks the values of rows with fitsURL.
func (r *reader) urlText(n ast.Node, what string) (scalar, bool) {
	r.urlName = what
	defer func() { r.urlName = "" }()
	return r.text(n, what)
}

// fitsURL reports whether the value of a field may be inserted into a URL between the texts prefix and suffix. If not,
// fitsURL adds an error. The error does not quote the value, because the value may be secret. // Invariant 5
func (r *reader) fitsURL(field, value, prefix, suffix string) bool {
	_, rest, hasScheme := strings.Cut(prefix, "://")
	hosts := r.rowOf.Hosts != nil
	switch {
	case prefix == "" && strings.HasPrefix(suffix, "://"):
		if s := strings.ToLower(value); s == "https" || s == "http" {
			return true
		}
		return r.unfit("the field {%s} is the scheme of an address; want https", field)
	case prefix == "" && (suffix == "" || suffix[0] == '/'):
		return true // the row has the whole URL, which hostFits checks
	case hasScheme && strings.ContainsAny(rest, `/?#\`):
		if !strings.ContainsAny(value, `?#\`) && !dotted(value) {
			return true
		}
		return r.unfit("the field {%s} is in the path of an address, and holds ?, #, \\ or a part that is . or ..; write %%3F for ?, %%23 for # and %%5C for \\", field)
	case label.MatchString(value) || hosts && labels.MatchString(value):
		return true
	case hosts:
		return r.unfit("the field {%s} is in the host of an address: want letters, digits, - and dots; a path needs a / before the field", field)
	}
	return r.unfit("the field {%s} is in the host of an address: want one part of a host, of letters, digits and -; "+
		"`hosts:` under from allows several parts, a path needs a / before the field", field)
}

// dotted reports whether a path has a segment . or .., also if it is written as %2e.
func dotted(path string) bool {
	plain, err := url.PathUnescape(path)
	return err != nil || slices.ContainsFunc(strings.Split(plain, "/"), func(part string) bool { return part == "." || part == ".." })
}

func (r *reader) unfit(format string, args ...any) bool {
	r.rowFault(*r.row, "source %s: %s: "+format, append([]any{r.rowName, r.urlName}, args...)...)
	return false
}

// hostFits checks the host of a URL that comes from a row against `hosts:`. A URL that the file itself states may have
// any host.
func (r *reader) hostFits(u *url.URL, what string) bool {
	if r.row == nil {
		return true
	}
	r.urlName = what
	defer func() { r.urlName = "" }()
	host := u.Hostname()
	switch {
	case strings.Contains("."+host, ".."):
		return r.unfit("its host has an empty part")
	case r.rowOf.Hosts != nil && !slices.ContainsFunc(r.rowOf.Hosts, func(p string) bool { return hostMatches(p, host) }):
		return r.unfit("its host is not in `hosts:` under from; add it there, or use *.example.com for all hosts below a domain")
	}
	return true
}

// hostMatches reports whether a host equals the pattern. The pattern *.example.com matches every host below
// example.com.
func hostMatches(pattern, host string) bool {
	if below, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(host) > len(below) && strings.HasSuffix(host, below)
	}
	return host == pattern
}

var hostPattern = regexp.MustCompile(`^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

func (r *reader) listingHosts(n ast.Node, what string) []string {
	hosts := []string{}
	for _, s := range r.texts(n, what) {
		pattern := strings.ToLower(s.value)
		if !hostPattern.MatchString(pattern) {
			r.fault(s.at, "%s %q: want the name of a host, or *.example.com for all below it, without scheme, port and path", what, s.raw)
			continue
		}
		hosts = append(hosts, pattern)
	}
	return hosts
}
