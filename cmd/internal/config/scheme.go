package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// ParsePin reads the signature scheme that `webhooks learn` has stored. The stored data is a mapping with the key
// `scheme`, as under `webhooks` in pipelines.yaml. If the scheme names no signature header, ParsePin uses the given
// header. Errors in the data are [Faults].
func ParsePin(file string, data []byte, header string) (signature.Scheme, error) {
	r := &reader{Input: Input{File: file, Env: func(string) (string, bool) { return "", false }}}
	var s signature.Scheme
	const what = "the learned scheme"
	if root := root(r, data, what); root.given() {
		w := &Webhooks{Header: header}
		root.mapping(fields{"scheme": func(v value) { s = w.readBlock(v.as(what), 0) }}, "scheme")
	}
	if len(r.faults) > 0 {
		return s, r.faults.sorted()
	}
	return s, nil
}

// readBlock reads a scheme that is given as a mapping, not as a name. The index becomes a part of the scheme's name, so
// that the names in a list differ.
func (w *Webhooks) readBlock(v value, index int) signature.Scheme {
	s := signature.Scheme{Name: "custom", Header: w.Header, PublicURL: w.PublicURL, EventID: signature.FromJSON("/id")}
	if index > 0 {
		s.Name = fmt.Sprintf("custom-%d", index+1)
	}
	at, before := map[string]Pos{}, len(v.r.faults)
	f := fields{
		"name":         set(&s.Name, readLabel),
		"header":       text(&s.Header),
		"parse":        set(&s.Parse, grammar),
		"timestamp":    set(&s.Timestamp, timestamp),
		"event_id":     set(&s.EventID, eventID),
		"content":      set(&s.Content, content),
		"algorithm":    choice(&s.Algorithm, signature.Algorithms()...),
		"encoding":     choice(&s.Encoding, signature.Encodings()...),
		"key_encoding": choice(&s.KeyEncoding, signature.KeyEncodings()...),
		"public_url":   text(&s.PublicURL),
		"allow_weak":   boolean(&s.AllowWeak),
	}
	for key, read := range f {
		f[key] = func(v value) { at[key] = v.pos(); optional(read)(v) }
	}
	ok := v.mapping(f)
	if _, given := at["content"]; ok && !given {
		v.fault(v.pos(), "%s has no content", v.what)
		return s
	}
	if len(v.r.faults) > before {
		return s
	}
	for _, f := range s.Faults() {
		pos, given := at[f.Key]
		if !given {
			pos = v.pos()
		}
		v.fault(pos, "%s %s", v.what, f.Error())
	}
	return s
}

// optional returns a function that ignores ~ (null), as if the key were missing, and reads any other value.
func optional(read func(value)) func(value) {
	return func(v value) {
		if _, null := v.resolve().(*ast.NullNode); !null {
			read(v)
			return
		}
		v.observe(sighting{null: true})
	}
}

// grammar reads `parse`. It keeps spaces, because a space may be a separator.
func grammar(v value) signature.Parse {
	var p signature.Parse
	raw := func(to *string) func(value) {
		return optional(func(v value) {
			s, ok := v.scalar()
			if ok && s.value == "" {
				v.fault(s.at, "%s is empty", v.what)
			}
			*to = s.value
		})
	}
	v.mapping(fields{
		"style":    choice(&p.Style, signature.Styles()...),
		"prefix":   raw(&p.Prefix),
		"pair_sep": raw(&p.PairSep), "kv_sep": raw(&p.KVSep),
		"sig": optional(set(&p.Sig, value.words)), "ignore": optional(set(&p.Ignore, value.words)),
		"ts": raw(&p.TS), "id": raw(&p.ID), "key_id": raw(&p.KeyID),
		"sep": raw(&p.Sep), "item_prefix": raw(&p.ItemPrefix), "template": raw(&p.Template),
	}, "style")
	return p
}

func timestamp(v value) signature.Timestamp {
	var t signature.Timestamp
	v.mapping(fields{
		"from":   set(&t.From, from),
		"unit":   choice(&t.Unit, signature.Units()...),
		"past":   set(&t.Past, period),
		"future": set(&t.Future, period),
	}, "from")
	return t
}

func eventID(v value) signature.From {
	var f signature.From
	v.mapping(fields{"from": set(&f, from)}, "from")
	return f
}

func from(v value) signature.From {
	s, _ := v.text()
	return signature.From(s.value)
}

// content reads the list of the parts that are signed. Without quotes, body means the body of the delivery. With
// quotes, "body" means the word itself.
func content(v value) []signature.Token {
	all := []signature.Token{}
	for _, item := range v.list() {
		t, ok := readToken(item)
		if !ok {
			return nil
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		v.fault(v.pos(), "%s is empty", v.what)
		return nil
	}
	return all
}

func readToken(v value) (signature.Token, bool) {
	if v.isMapping() {
		return readDigest(v)
	}
	s, ok := v.scalar()
	if !ok {
		return signature.Token{}, false
	}
	t, known := signature.ParseToken(s.value)
	n, _ := v.resolve().(*ast.StringNode)
	quoted := n != nil && (n.Token.Type == token.DoubleQuoteType || n.Token.Type == token.SingleQuoteType)
	switch {
	case quoted && known:
		v.fault(s.at, "%s: %q in quotes is a literal; remove the quotes to use the token of that name", v.what, s.raw)
	case quoted:
		return signature.Literal(s.value), true
	case known:
		return t, true
	default:
		v.fault(s.at, "%s: %q is unknown%s; put literals in quotes", v.what, s.raw, suggestion(s.raw, signature.TokenNames()))
	}
	return signature.Token{}, false
}

func readDigest(v value) (signature.Token, bool) {
	var t signature.Token
	given := 0
	all := fields{}
	for _, k := range []signature.Kind{signature.SHA256Hex, signature.SHA256Raw} {
		all[string(k)] = func(v value) {
			given++
			t = signature.Token{Kind: k, Of: content(v)}
		}
	}
	ok := v.mapping(all)
	if ok && given != 1 {
		v.fault(v.pos(), "%s: want one of sha256hex and sha256raw in a mapping", v.what)
	}
	return t, ok && given == 1 && t.Of != nil
}
