package imports

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// field is one key of an `imported:` block.
type field struct {
	key    string
	value  string  // in flow style; it is written on the line of the key
	fields []field // if not nil, these are written instead of `value`, in block style: one line for each field
}

// fields returns the keys of a stream's `imported:` block, the most important first.
func (s Stream) fields() []field {
	all := []field{{key: "from", value: quoted(s.From)}, {key: "operation", value: quoted(s.Operation)}}
	add := func(key, value string, is bool) {
		if is {
			all = append(all, field{key: key, value: value})
		}
	}
	add("off", quoted(s.Reason), !s.Enabled)
	add("description", quoted(s.Description), s.Description != "")
	if !s.Override {
		add("surface", string(s.Surface), s.Surface == schemas.SurfaceV2)
		add("path", quoted(s.Path), true)
		add("class", string(s.Class), s.Class != schemas.ClassList)
		add("auth", string(s.Auth), s.Auth != "")
		add("parent", quoted(s.Parent), s.Parent != "")
		add("params", params1(s.Params), slices.ContainsFunc(s.Params, given))
	}
	add("records", several(s.Records), len(s.Records) > 0)
	add("key", several(s.Key), len(s.Key) > 0)
	add("pagination", pagination1(s.Pagination), s.Pagination.Type != "")
	if columns := s.columns(); len(columns) > 0 {
		all = append(all, field{key: "columns", fields: columns})
	}
	return all
}

func given(p schemas.Param) bool { return p.From != "" || p.Value != "" }

func (s Stream) columns() []field {
	var all []field
	paths := slices.Collect(maps.Keys(s.Types))
	for path := range s.Descriptions {
		if _, typed := s.Types[path]; !typed {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		var parts []field
		if t := s.Types[path]; t != "" {
			parts = append(parts, field{key: "type", value: quoted(t)})
		}
		if text := s.Descriptions[path]; text != "" {
			parts = append(parts, field{key: "description", value: quoted(text)})
		}
		all = append(all, field{key: quoted(path), value: flow(parts)})
	}
	return all
}

func params1(all []schemas.Param) string {
	var parts []field
	for _, p := range all {
		switch {
		case p.From != "":
			parts = append(parts, field{key: quoted(p.Name), value: flow([]field{{key: "from", value: quoted(p.From)}})})
		case p.Value != "":
			parts = append(parts, field{key: quoted(p.Name), value: quoted(p.Value)})
		}
	}
	return flow(parts)
}

func pagination1(p schemas.Pagination) string {
	parts := []field{{key: "type", value: p.Type}}
	if p.Page != "" {
		parts = append(parts, field{key: "page", value: quoted(p.Page)})
	}
	if p.Size != "" {
		parts = append(parts, field{key: "size", value: quoted(p.Size)})
	}
	if p.Limit > 0 {
		parts = append(parts, field{key: "limit", value: strconv.Itoa(p.Limit)})
	}
	return flow(parts)
}

// several() returns a list of texts as YAML, on one line.
func several(all []string) string {
	parts := make([]string, len(all))
	for i, s := range all {
		parts[i] = quoted(s)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// flow returns fields as YAML in braces, on one line.
func flow(fields []field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		value := f.value
		if f.fields != nil {
			value = flow(f.fields)
		}
		parts[i] = f.key + ": " + value
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// block returns fields as indented lines of YAML.
func block(fields []field, indent string) []string {
	var lines []string
	for _, f := range fields {
		if f.fields == nil {
			lines = append(lines, indent+f.key+": "+f.value)
			continue
		}
		lines = append(lines, indent+f.key+":")
		lines = append(lines, block(f.fields, indent+"  ")...)
	}
	return lines
}

var (
	plain    = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_/.-]*( [A-Za-z0-9_/.(-][A-Za-z0-9_/.()-]*)*$`)
	reserved = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n|\.nan|\.inf)$`)
)

// quoted returns a text as a YAML value. The result has double quotes, unless the text is safe without them. `${` is
// escaped, because a configuration would expand it.
func quoted(s string) string {
	s = strings.ReplaceAll(s, "${", "$${")
	if plain.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string is always JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}
