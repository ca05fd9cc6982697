package config

import (
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
)

// Destination is where tables are stored.
type Destination struct {
	At      Pos
	Name    string
	Scheme  string      // the scheme of URL, such as duckdb
	URL     wire.Secret // may contain a password
	Shown   string      // URL without user, password and query, for output
	Schema  string
	Publish string      // path of the copy for readers
	Mode    fs.FileMode // mode of created files; 0: as the umask allows, never writable by others
	Files   string      // folder for downloaded files, such as PDFs; "": the default of the scheme

	AccessKey, SecretKey wire.Secret // credentials of an object store; "": as the cloud's own tools find them
}

func (r *reader) destinations(n ast.Node) []Destination {
	return namedEntries(r, n, "destinations", func(e entry) Destination {
		d := Destination{At: e.at, Name: e.key}
		what := "destination " + e.key
		if _, block := r.resolve(e.value).(ast.MapNode); !block {
			r.destinationURL(&d, e.value, what)
			return d
		}
		word := func(to *string, key string) func(ast.Node) {
			return func(n ast.Node) {
				if s, ok := r.text(n, what+" "+key); ok {
					*to = s.value
				}
			}
		}
		ok := r.mapping(e.value, what, fields{
			"url":     func(n ast.Node) { r.destinationURL(&d, n, what+" url") },
			"schema":  word(&d.Schema, "schema"),
			"publish": word(&d.Publish, "publish"),
			"files":   word(&d.Files, "files"),
			"mode":    func(n ast.Node) { d.Mode = r.fileMode(n, what+" mode") },

			"access_key": func(n ast.Node) { d.AccessKey = r.secret(n, what+" access_key") },
			"secret_key": func(n ast.Node) { d.SecretKey = r.secret(n, what+" secret_key") },
		})
		if ok {
			r.require(e.value, what, "url")
		}
		return d
	})
}

func (r *reader) fileMode(n ast.Node, what string) fs.FileMode {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	mode, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimPrefix(s.raw, "0"), "o"), 8, 32)
	if err != nil || mode&^0o666 != 0 || mode&0o600 != 0o600 {
		r.fault(s.at, "%s %q: want the octal mode of a file that its owner reads and writes, such as 0640 or 0664", what, s.raw)
		return 0
	}
	return fs.FileMode(mode)
}

// destinationURL checks the scheme against Input.Schemes, so that a new kind of destination needs no change here.
func (r *reader) destinationURL(d *Destination, n ast.Node, what string) {
	s, ok := r.text(n, what)
	if !ok {
		return
	}
	scheme, rest, found := strings.Cut(s.value, ":")
	switch {
	case !found:
		r.fault(s.at, "%s %q has no scheme; want for example duckdb:warehouse.duckdb", what, s.raw)
	case !slices.Contains(r.Schemes, scheme):
		shown := s.raw
		if s.raw == s.value {
			shown = scheme // the rest may contain a password
		}
		r.fault(s.at, "%s: no destination for %q%s", what, shown, suggestion(scheme, r.Schemes))
	case rest == "":
		r.fault(s.at, "%s has nothing after %s:", what, scheme)
	default:
		d.Scheme, d.URL, d.Shown = scheme, wire.Secret(s.value), shownURL(s.value)
	}
}

func shownURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		scheme, _, _ := strings.Cut(s, ":")
		return scheme + ":…"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
