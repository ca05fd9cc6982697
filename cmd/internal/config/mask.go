package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// shortestKey is the least length of a mask key in bytes.
const shortestKey = 16

// masks reads entries such as `crm.leads.email: hmac`, `"*.email": hmac` and `"hr.*": personal`. An entry without *
// applies to exactly one column of one stream. An entry with * also applies to members of nested objects and lists.
func masks(v value, streams []Stream) []Mask {
	var all []Mask
	es, _ := v.entries()
	for _, e := range es {
		m := Mask{At: e.at, Stream: e.key}
		if s, ok := e.resolve().(ast.ScalarNode); ok && fmt.Sprint(s.GetValue()) == schemas.PresetPersonal {
			m.Preset = schemas.PresetPersonal
		} else {
			m.Mask = readMask(e.value, schemas.PresetPersonal)
			i := strings.LastIndexByte(e.key, '.')
			if i < 1 || i == len(e.key)-1 {
				v.fault(e.at, "%s %q: want stream.column, such as *.email", v.what, e.key)
				continue
			}
			m.Stream, m.Column = e.key[:i], e.key[i+1:]
			if !schemas.ColumnPattern(m.Column) {
				v.fault(e.at, "%s %q: %q is not a column path; want lower case, * for any letters", v.what, e.key, m.Column)
				continue
			}
		}
		if bad := badPattern(m.Stream, streams); bad != "" {
			v.fault(e.at, "%s %q: %s", v.what, e.key, bad)
			continue
		}
		all = append(all, m)
	}
	return all
}

// readMask reads a mask. The caller has already handled the words in otherWords. Error messages list these words too.
func readMask(v value, otherWords ...string) schemas.Mask {
	var m schemas.Mask
	if !v.isMapping() {
		m.Action = v.choice(append(schemas.MaskActions(), otherWords...)...)
		return m
	}
	v.mapping(maskFields(&m), "mask")
	checkMask(v, m)
	return m
}

func maskFields(m *schemas.Mask) fields {
	return fields{
		"mask":     choice(&m.Action, schemas.MaskActions()...),
		"encoding": text(&m.Encoding),
		"with":     text(&m.With),
		"keep":     number(&m.Keep, 1, 64),
		"to":       func(v value) { text(&m.To)(v); m.To = strings.ReplaceAll(m.To, "_", "") },
	}
}

func checkMask(v value, m schemas.Mask) {
	if m.Action == "" {
		return // its error is reported elsewhere
	}
	if err := m.Check(); err != nil {
		v.fault(v.pos(), "%s: %v", v.what, err)
	}
}

// maskKey keeps spaces around the key, because all masked values depend on the exact key. // Invariant 5
func maskKey(v value) wire.Secret {
	s, ok := v.credential().text()
	key := wire.Secret(s.value)
	switch {
	case !ok:
		return ""
	case key == unread:
		return key // the command was not run, so the length is unknown
	case len(s.value) < shortestKey:
		v.fault(s.at, "%s is shorter than %d characters", v.what, shortestKey)
	}
	v.r.secrets = append(v.r.secrets, key)
	return key
}

// masksFor returns the masks of a stream. If two masks match a column, the later one applies. So masksFor orders the
// masks from the most general to the most specific:
//   - presets, such as personal
//   - patterns of columns: "*.*_email"
//   - the built-in preset that drops credentials
//   - a column of several streams: "crm.*.email"
//   - a column of one stream: crm.leads.email
//   - masks under `streams: {crm.leads: {columns: …}}`
func (c *Config) masksFor(p Pipeline, s Stream) []schemas.MaskRule {
	var sets, patterns, names, exact []schemas.MaskRule
	for _, m := range p.Mask {
		if !matches(m.Stream, s.Name) {
			continue
		}
		rule := m.rule()
		switch {
		case m.Preset != "":
			sets = append(sets, c.presets.Rules(m.Preset, s.Name)...)
		case strings.Contains(m.Column, "*"):
			patterns = append(patterns, rule)
		case strings.Contains(m.Stream, "*"):
			names = append(names, rule)
		default:
			exact = append(exact, rule)
		}
	}
	never := c.presets.Rules(schemas.PresetCredentials, s.Name)
	own := make([]schemas.MaskRule, len(s.Columns))
	for i, m := range s.Columns {
		own[i] = schemas.MaskRule{Column: m.Column, Exact: true, Mask: m.Mask}
	}
	return slices.Concat(sets, patterns, never, names, exact, own)
}

// checkMasks reports masks that make the key of a stream useless. Such a mask drops the key, or gives the same value to
// keys of different records.
func (c *Config) checkMasks(p Pipeline, streams []Stream, say func(Pos, string, ...any)) {
	said := map[Pos]bool{}
	for _, s := range streams {
		for _, name := range s.Key {
			if v := s.Verdict(schemas.PathPointer(name)); v.Drop || !v.Mask.Keyable() {
				at, by := c.blame(p, s, name)
				if !said[at] {
					say(at, "%s %s, the key of %s; a key allows only hmac, hash or keep", by, name, s.Name)
				}
				said[at] = true
			}
		}
	}
}

// MasksKeyed reports whether any of the streams uses the mask hmac, which needs a key.
func MasksKeyed(streams []Stream) bool {
	return slices.ContainsFunc(streams, func(s Stream) bool {
		return slices.ContainsFunc(s.Rules.Masks, func(m schemas.MaskRule) bool { return m.Mask.Action == schemas.MaskHMAC })
	})
}

// blame returns the position and the description of the setting that masks a key column.
func (c *Config) blame(p Pipeline, s Stream, key string) (Pos, string) {
	unfit := func(rules ...schemas.MaskRule) bool {
		alone := s.Stream
		alone.Rules = schemas.Rules{Masks: rules}
		v := alone.Verdict(schemas.PathPointer(key))
		return v.Drop || !v.Mask.Keyable()
	}
	for _, m := range slices.Backward(s.Columns) {
		if unfit(schemas.MaskRule{Column: m.Column, Exact: true, Mask: m.Mask}) {
			return m.At, "stream " + s.Name + " columns would " + verb(m.Mask)
		}
	}
	for _, m := range slices.Backward(p.Mask) {
		if !matches(m.Stream, s.Name) {
			continue
		}
		what := "pipeline " + p.Name + " mask "
		if m.Preset != "" && unfit(c.presets.Rules(m.Preset, s.Name)...) {
			return m.At, what + m.Preset + " would mask"
		}
		if m.Preset == "" && unfit(m.rule()) {
			return m.At, what + "would " + verb(m.Mask)
		}
	}
	return s.At, "stream " + s.Name + " never loads credentials, so it would drop"
}

func verb(m schemas.Mask) string {
	if m.Action == schemas.MaskDrop {
		return "drop"
	}
	return "mask (" + m.Action + ")"
}
