package signature

import "strings"

const (
	maxHeader     = 4 << 10 // bytes
	maxSignatures = 8
)

type fields struct {
	sigs          [maxSignatures]string
	n             int // number of sigs
	ts, id, keyID string
}

func (f *fields) addSig(text string) bool {
	if f.n == maxSignatures || text == "" {
		return false
	}
	f.sigs[f.n] = text
	f.n++
	return true
}

func setOnce(to *string, text string) bool {
	if *to != "" || text == "" {
		return false
	}
	*to = text
	return true
}

// parse parses a signature header. It returns false if the header has anything that the scheme does not describe.
func (p *Parse) parse(value string, f *fields) bool {
	if len(value) > maxHeader || !printable(value) {
		return false
	}
	ok := false
	switch p.Style {
	case Bare:
		ok = f.addSig(value)
	case Prefixed:
		sig, has := strings.CutPrefix(value, p.Prefix)
		ok = has && f.addSig(sig)
	case KV:
		ok = eachItem(value, p.PairSep, func(item string) bool { return p.pair(item, f) })
	case List:
		ok = eachItem(value, p.Sep, func(item string) bool {
			sig, counts := strings.CutPrefix(item, p.ItemPrefix)
			return item != "" && (!counts || f.addSig(sig))
		})
	case Template:
		ok = eachItem(value, p.Sep, func(item string) bool { return p.matchTemplate(item, f) })
	}
	return ok && f.n > 0
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// eachItem calls the function visit for each item of value, until visit returns false. If sep is "", the whole value is
// one item.
func eachItem(value, sep string, visit func(item string) bool) bool {
	for more := true; more; {
		var item string
		if sep == "" {
			item, value, more = value, "", false
		} else {
			item, value, more = strings.Cut(value, sep)
		}
		if !visit(item) {
			return false
		}
	}
	return true
}

func (p *Parse) pair(item string, f *fields) bool {
	key, value, ok := strings.Cut(item, p.KVSep)
	if !ok || key == "" || value == "" {
		return false
	}
	switch key {
	case p.TS:
		return setOnce(&f.ts, value)
	case p.ID:
		return setOnce(&f.id, value)
	case p.KeyID:
		return setOnce(&f.keyID, value)
	}
	for _, sig := range p.Sig {
		if key == sig {
			return f.addSig(value)
		}
	}
	for _, ignored := range p.Ignore {
		if key == ignored {
			return true
		}
	}
	return false
}

// matchTemplate parses an item with the template. A placeholder gets the text up to the next fixed text. The last
// placeholder gets the rest.
func (p *Parse) matchTemplate(item string, f *fields) bool {
	rest := p.Template
	for rest != "" {
		fixed, after, place := strings.Cut(rest, "{")
		var ok bool
		if item, ok = strings.CutPrefix(item, fixed); !ok {
			return false
		}
		if !place {
			return item == ""
		}
		var name, value string
		name, rest, _ = strings.Cut(after, "}")
		value, item = item, ""
		if next, _, _ := strings.Cut(rest, "{"); next != "" {
			if value, item, ok = strings.Cut(value, next); !ok {
				return false
			}
			item = next + item
		}
		if !f.setPlaceholder(name, value) {
			return false
		}
	}
	return item == ""
}

// setPlaceholder sets the value of a placeholder. The time, the id and the key id must be the same in all items
// of a header.
func (f *fields) setPlaceholder(name, value string) bool {
	switch name {
	case "sig":
		return f.addSig(value)
	case "ts":
		return f.ts == value && value != "" || setOnce(&f.ts, value)
	case "id":
		return f.id == value && value != "" || setOnce(&f.id, value)
	case "key_id":
		return f.keyID == value && value != "" || setOnce(&f.keyID, value)
	}
	return false
}

// The function single() returns the only value of a header. Several values are refused, because another program might
// read a different one of them.
func single(header map[string][]string, name string) (value string, reason Reason) {
	switch all := header[name]; {
	case len(all) > 1:
		return "", Malformed
	case len(all) == 0 || all[0] == "":
		return "", Missing
	default:
		return all[0], ""
	}
}
