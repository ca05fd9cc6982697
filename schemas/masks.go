package schemas

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed masks/*.yaml
var maskFiles embed.FS

// Names of the embedded sets of masks.
const (
	PresetCredentials = "credentials" // drops keys, tokens and passwords in any stream
	PresetPersonal    = "personal"    // masks personal data of employees
)

// Presets are named sets of masks.
type Presets struct{ sets map[string][]presetEntry }

type presetEntry struct {
	Mask     string
	Encoding string
	With     string
	Keep     int
	To       string
	Streams  []string // patterns; empty: all streams
	Columns  []string // patterns: see MaskRule.Column
	Exact    bool
}

// LoadPresets returns the embedded sets.
func LoadPresets() (*Presets, error) { return loadPresets(maskFiles) }

func loadPresets(fsys fs.FS) (*Presets, error) {
	names, err := fs.Glob(fsys, "masks/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list masks: %w", err)
	}
	p := &Presets{sets: map[string][]presetEntry{}}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read masks: %w", err)
		}
		var entries []presetEntry
		if err := decode(data, &entries); err != nil {
			return nil, errors.Join(inFile(name, err)...)
		}
		for _, e := range entries {
			if err := e.check(); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		p.sets[strings.TrimSuffix(path.Base(name), ".yaml")] = entries
	}
	return p, nil
}

// Rules returns the masks of the named set that apply to a stream.
func (p *Presets) Rules(set, stream string) []MaskRule {
	var rules []MaskRule
	for _, e := range p.sets[set] {
		if e.Streams != nil && !slices.ContainsFunc(e.Streams, func(s string) bool { return matches(s, stream) }) {
			continue
		}
		for _, c := range e.Columns {
			rules = append(rules, MaskRule{Column: c, Exact: e.Exact, Mask: e.mask()})
		}
	}
	return rules
}

func (e presetEntry) mask() Mask {
	return Mask{Action: e.Mask, Encoding: e.Encoding, With: e.With, Keep: e.Keep, To: e.To}
}

func (e presetEntry) check() error {
	if err := e.mask().Check(); err != nil {
		return err
	}
	for _, c := range e.Columns {
		if !ColumnPattern(c) {
			return fmt.Errorf("%q is not a column path", c)
		}
	}
	return nil
}

var columnPattern = regexp.MustCompile(`^[a-z0-9_*]+$`)

// ColumnPattern reports whether s is a valid column pattern: lower-case ASCII letters, digits, underscores and *.
func ColumnPattern(s string) bool { return columnPattern.MatchString(s) }

// MaskActions returns all actions of masks.
func MaskActions() []string {
	return []string{MaskKeep, MaskDrop, MaskHMAC, MaskHash, MaskRedact, MaskEmail, MaskPartial, MaskRound}
}

var powerOfTen = regexp.MustCompile(`^10{1,15}$`)

// Check returns an error if the action is unknown. It also returns an error if a parameter is set that this action does
// not use, or if the value of a parameter is invalid.
func (m Mask) Check() error {
	if !slices.Contains(MaskActions(), m.Action) {
		return fmt.Errorf("mask %q: want one of %s", m.Action, strings.Join(MaskActions(), ", "))
	}
	keyed := m.Action == MaskHMAC || m.Action == MaskHash
	switch {
	case m.Encoding != "" && !keyed:
		return fmt.Errorf("mask %s has no option `encoding`", m.Action)
	case m.Encoding != "" && m.Encoding != "hex" && m.Encoding != "base64url":
		return fmt.Errorf("mask %s: encoding %q: want hex or base64url", m.Action, m.Encoding)
	case m.With != "" && m.Action != MaskRedact:
		return fmt.Errorf("mask %s has no option `with`", m.Action)
	case m.Keep != 0 && m.Action != MaskPartial:
		return fmt.Errorf("mask %s has no option `keep`", m.Action)
	case m.Keep < 0 || m.Keep > 64:
		return fmt.Errorf("mask %s: keep %d: want 1 to 64", m.Action, m.Keep)
	case m.To != "" && m.Action != MaskRound:
		return fmt.Errorf("mask %s has no option `to`", m.Action)
	case m.To != "" && !powerOfTen.MatchString(m.To) && !slices.Contains([]string{"day", "month", "year"}, m.To):
		return fmt.Errorf("mask %s: to %q: want a power of ten, day, month or year", m.Action, m.To)
	}
	return nil
}

// Textual reports whether the mask turns any value into text. Such a mask applies to the text of the value in the
// source: 1.50 and 1.5 differ.
func (m Mask) Textual() bool {
	switch m.Action {
	case MaskHMAC, MaskHash, MaskRedact, MaskEmail, MaskPartial:
		return true
	}
	return false
}

// Keyable reports whether a column of a key may have the mask. After such a mask, equal keys are still equal and
// different keys still differ.
func (m Mask) Keyable() bool {
	switch m.Action {
	case "", MaskKeep, MaskHMAC, MaskHash:
		return true
	}
	return false
}
