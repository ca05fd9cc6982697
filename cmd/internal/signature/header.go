package signature

import "strings"

// What a signature header may hold.
const (
	maxHeader     = 4 << 10 // bytes
	maxSignatures = 8
)

// fields are what was read out of a signature header.
type fields struct {
	sigs          [maxSignatures]string
	n             int // of sigs
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

// once sets a field that may stand in a header only once.
func once(to *string, text string) bool {
	if *to != "" || text == "" {
		return false
	}
	*to = text
	return true
}

// parse takes a header apart. It is strict: what the scheme does not describe
// makes the whole header none of the scheme's.
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
		ok = eachItem(value, p.Sep, func(item string) bool { return p.fit(item, f) })
	}
	return ok && f.n > 0
}

// printable reports whether a text is of visible ASCII and blanks alone.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// eachItem hands out what stands between separators, until one is refused. With
// no separator the whole is one item.
func eachItem(value, sep string, take func(item string) bool) bool {
	for more := true; more; {
		var item string
		if sep == "" {
			item, value, more = value, "", false
		} else {
			item, value, more = strings.Cut(value, sep)
		}
		if !take(item) {
			return false
		}
	}
	return true
}

// pair reads one key and its value.
func (p *Parse) pair(item string, f *fields) bool {
	key, value, ok := strings.Cut(item, p.KVSep)
	if !ok || key == "" || value == "" {
		return false
	}
	switch key {
	case p.TS:
		return once(&f.ts, value)
	case p.ID:
		return once(&f.id, value)
	case p.KeyID:
		return once(&f.keyID, value)
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

// fit reads one item by the template. A placeholder takes what stands before
// the next fixed text, the last one the rest.
func (p *Parse) fit(item string, f *fields) bool {
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
		if !f.place(name, value) {
			return false
		}
	}
	return item == ""
}

// place sets what a placeholder of a template stands for. In a list of items
// each has the same time, id and key.
func (f *fields) place(name, value string) bool {
	switch name {
	case "sig":
		return f.addSig(value)
	case "ts":
		return f.ts == value && value != "" || once(&f.ts, value)
	case "id":
		return f.id == value && value != "" || once(&f.id, value)
	case "key_id":
		return f.keyID == value && value != "" || once(&f.keyID, value)
	}
	return false
}

// single is the only value of a header; "" where there is none. More than one
// is refused: whoever reads the other one would see something else.
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
