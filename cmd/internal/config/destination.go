package config

import (
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
	Mode    fs.FileMode // mode of created files; 0: the umask decides, but other users can never write
	Files   string      // folder for downloaded files, such as PDFs; "": the default of the scheme

	// ReadOnly opens a DuckDB file only for reading. Package open sets it. It is no key of the configuration.
	ReadOnly bool

	// A pipeline may write to several destinations on the same server. Together is the number of these destinations,
	// including this one. If several pipelines write to this destination, Together is the largest number.
	Together int

	Connections int // how many connections this process has to the server of the URL; 0: the default of the scheme

	AccessKey, SecretKey wire.Secret // credentials of an object store; "": the client library of the cloud finds them
}

func readDestination(e entry) Destination {
	d := Destination{At: e.at, Name: e.key}
	v := e.as("destination " + e.key)
	if !v.isMapping() {
		d.readURL(v)
		return d
	}
	v.mapping(fields{
		"url":     d.readURL,
		"schema":  text(&d.Schema),
		"publish": text(&d.Publish),
		"files":   text(&d.Files),
		"mode":    set(&d.Mode, fileMode),

		"access_key": set(&d.AccessKey, secret),
		"secret_key": set(&d.SecretKey, secret),
	}, "url")
	return d
}

func fileMode(v value) fs.FileMode {
	return converted(v, "an octal file mode without execute bits that lets the owner read and write, such as 0640 or 0664", func(s string) (fs.FileMode, bool) {
		mode, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimPrefix(s, "0"), "o"), 8, 32)
		return fs.FileMode(mode), err == nil && mode&^0o666 == 0 && mode&0o600 == 0o600
	})
}

// readURL checks the scheme of the URL against Input.Schemes. So a new kind of destination needs no change here.
func (d *Destination) readURL(v value) {
	s, ok := v.text()
	if !ok {
		return
	}
	scheme, rest, found := strings.Cut(s.value, ":")
	switch {
	case !found:
		v.fault(s.at, "%s %q has no scheme; want for example duckdb:warehouse.duckdb", v.what, s.raw)
	case !slices.Contains(v.r.Schemes, scheme):
		shown := s.raw
		if s.raw == s.value {
			shown = scheme // the rest may contain a password
		}
		v.fault(s.at, "%s: no kind of destination has the scheme %q%s", v.what, shown, suggestion(scheme, v.r.Schemes))
	case rest == "":
		v.fault(s.at, "%s has nothing after %s:", v.what, scheme)
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

func destinationNames(all []Destination) []string {
	var ns []string
	for _, d := range all {
		ns = append(ns, d.Name)
	}
	return ns
}
