package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Row is one row of a listing.
type Row struct {
	File   string // the file that has the row; "" for a query or command
	Line   int
	Fields map[string]string
}

// listedRow is the row of a listing from which a source is being made.
type listedRow struct {
	Row
	name  string   // name of the source
	hosts []string // patterns of allowed hosts; nil: every host that the template allows
}

func (r *reader) rowFault(row Row, format string, args ...any) {
	at := len(r.faults)
	r.fault(Pos{Line: row.Line}, "sources from: "+format, args...)
	if row.File != "" {
		r.faults[at].File = row.File
	}
}

// templateWord matches $${, a reference ${…} (which may contain {name}), or a field {…}.
var templateWord = regexp.MustCompile(`\$\$\{|\$\{(?:[^{}]|\{name\})*\}|\{[^{}]*\}`)

// fill replaces {field} by the value of that field in the current row, and expands ${…}. Inside a reference, such as
// ${KEY_{name}}, it replaces only {name}, because the names of sources have no special characters. If a value of the
// row contains ${…}, this text is not expanded.
func (v value) fill(raw string) (string, bool) {
	if v.row == nil {
		return v.expand(raw)
	}
	var b, own strings.Builder
	all := true
	put := func(text string, ok bool) {
		b.WriteString(text)
		all = all && ok
	}
	from := 0
	for _, m := range templateWord.FindAllStringIndex(raw, -1) {
		word := raw[m[0]:m[1]]
		own.WriteString(raw[from:m[0]])
		from = m[1]
		if strings.HasPrefix(word, "$") {
			own.WriteString(strings.ReplaceAll(word, "{name}", v.row.name))
			continue
		}
		put(v.expand(own.String()))
		own.Reset()
		field := word[1 : len(word)-1]
		text, ok := v.field(field)
		put(text, ok && (!v.isURL || v.fitsURL(field, text, b.String(), raw[from:])))
	}
	put(v.expand(own.String() + raw[from:]))
	return b.String(), all
}

func (v value) field(name string) (string, bool) {
	if name == "name" {
		return v.row.name, true
	}
	text, ok := v.row.Fields[name]
	if !ok {
		v.fault(v.pos(), "the row of source %s has no field {%s}", v.row.name, name)
	}
	return text, ok
}

// The template and a row together give the address to which credentials are sent. The row may come from a person who
// must not choose the host, such as a customer who fills in a form. So a field in a host may be only one label, that
// is, the text between two dots. In https://{ws}.example.com, ws can be acme, but not evil.com/. If `hosts:` limits the
// host, the field may have several labels. If the template is only one field, such as {url}, the row gives the whole
// address, which `hosts:` can limit too. // Invariant 10
const labelBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// isLabel reports whether the text may be one label of a host. isLabels reports whether it may be several labels. RFC
// 1035 limits a label to 63 bytes, and a host to 253.
func isLabel(text string) bool  { return len(text) <= 63 && strings.Trim(text, labelBytes) == "" }
func isLabels(text string) bool { return len(text) <= 253 && strings.Trim(text, labelBytes+".") == "" }

// url reads a URL. For each field that a row fills in, fill() calls fitsURL().
func (v value) url() (scalar, bool) {
	v.isURL = true
	return v.text()
}

// fitsURL reports whether the value of a field may be inserted into a URL, between the texts prefix and suffix. If it
// may not, fitsURL adds an error. The error does not quote the value, because the value may be secret. // Invariant 5
func (v value) fitsURL(field, text, prefix, suffix string) bool {
	_, rest, hasScheme := strings.Cut(prefix, "://")
	hosts := v.row.hosts != nil
	switch {
	case prefix == "" && strings.HasPrefix(suffix, "://"):
		if s := strings.ToLower(text); s == "https" || s == "http" {
			return true
		}
		return v.unfit("the field {%s} is the scheme of an address; want https", field)
	case prefix == "" && (suffix == "" || suffix[0] == '/'):
		return true // the row has the whole URL, which hostFits checks
	case hasScheme && strings.ContainsAny(rest, `/?#\`):
		if !strings.ContainsAny(text, `?#\`) && !dotted(text) {
			return true
		}
		return v.unfit("the field {%s} is in the path of an address, and holds ?, #, \\ or a part that is . or ..; write %%3F for ?, %%23 for # and %%5C for \\", field)
	case isLabel(text) || hosts && isLabels(text): // several labels, if `hosts:` limits the host
		return true
	case hosts:
		return v.unfit("the field {%s} is in the host of an address: want letters, digits, - and dots; a path needs a / before the field", field)
	}
	return v.unfit("the field {%s} is in the host of an address: want one part of a host, of letters, digits and -; "+
		"`hosts:` under `from` allows several parts, a path needs a / before the field", field)
}

// dotted reports whether a path has a segment . or .. A dot may also be written as %2e.
func dotted(path string) bool {
	plain, err := url.PathUnescape(path)
	return err != nil || slices.ContainsFunc(strings.Split(plain, "/"), func(part string) bool { return part == "." || part == ".." })
}

func (v value) unfit(format string, args ...any) bool {
	v.r.rowFault(v.row.Row, "source %s: %s: "+format, append([]any{v.row.name, v.what}, args...)...)
	return false
}

// hostFits checks whether `hosts:` allows the host of a URL that was made from a row. A URL of a source in the file
// itself may have any host.
func (v value) hostFits(u *url.URL) bool {
	host := u.Hostname()
	switch {
	case v.row == nil:
	case strings.Contains("."+host, ".."):
		return v.unfit("its host has an empty part")
	case v.row.hosts != nil && !slices.ContainsFunc(v.row.hosts, func(p string) bool { return hostMatches(p, host) }):
		return v.unfit("its host is not in `hosts:` under `from`; add it there, or use *.example.com for all hosts below a domain")
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
