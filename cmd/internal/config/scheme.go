package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// ParsePin reads the signature scheme that `webhooks learn` has stored: a mapping with the key scheme, in the form
// of webhooks in pipelines.yaml. If the scheme names no signature header, it gets the parameter header. Errors in
// the data are [Faults].
func ParsePin(file string, data []byte, header string) (signature.Scheme, error) {
	r := &reader{Input: Input{File: file, Env: func(string) (string, bool) { return "", false }}}
	var s signature.Scheme
	if root := r.document(data); root != nil {
		if r.mapping(root, "the learned scheme", fields{
			"scheme": func(n ast.Node) { s = r.block(n, &Webhooks{Header: header}, "the learned scheme", 0) },
		}) {
			r.require(root, "the learned scheme", "scheme")
		}
	}
	if len(r.faults) > 0 {
		return s, r.faults.sorted()
	}
	return s, nil
}

// block reads a scheme that is written out as a mapping. The index makes the name of the scheme unique in a list.
func (r *reader) block(n ast.Node, w *Webhooks, what string, index int) signature.Scheme {
	s := signature.Scheme{Name: "custom", Header: w.Header, PublicURL: w.PublicURL, EventID: signature.FromJSON("/id")}
	if index > 0 {
		s.Name = fmt.Sprintf("custom-%d", index+1)
	}
	at, before := map[string]Pos{}, len(r.faults)
	in := func(key string, read func(n ast.Node, what string)) func(ast.Node) {
		return func(n ast.Node) {
			at[key] = posOf(n)
			if !r.unset(n) {
				read(n, what+" "+key)
			}
		}
	}
	ok := r.mapping(n, what, fields{
		"name":         in("name", func(n ast.Node, what string) { s.Name = r.label(n, what) }),
		"header":       in("header", func(n ast.Node, what string) { r.word(n, what, &s.Header) }),
		"parse":        in("parse", func(n ast.Node, what string) { s.Parse = r.grammar(n, what) }),
		"timestamp":    in("timestamp", func(n ast.Node, what string) { s.Timestamp = r.timestamp(n, what) }),
		"event_id":     in("event_id", func(n ast.Node, what string) { s.EventID = r.eventID(n, what) }),
		"content":      in("content", func(n ast.Node, what string) { s.Content = r.content(n, what) }),
		"algorithm":    in("algorithm", func(n ast.Node, what string) { s.Algorithm = choiceOf(r, n, what, signature.Algorithms()) }),
		"encoding":     in("encoding", func(n ast.Node, what string) { s.Encoding = choiceOf(r, n, what, signature.Encodings()) }),
		"key_encoding": in("key_encoding", func(n ast.Node, what string) { s.KeyEncoding = choiceOf(r, n, what, signature.KeyEncodings()) }),
		"public_url":   in("public_url", func(n ast.Node, what string) { r.word(n, what, &s.PublicURL) }),
		"allow_weak":   in("allow_weak", func(n ast.Node, what string) { s.AllowWeak = r.boolean(n, what) }),
	})
	if _, given := at["content"]; ok && !given {
		r.fault(posOf(n), "%s has no content", what)
		return s
	}
	if len(r.faults) > before {
		return s
	}
	for _, f := range s.Faults() {
		pos, given := at[f.Key]
		if !given {
			pos = posOf(n)
		}
		r.fault(pos, "%s %s", what, f.Error())
	}
	return s
}

// unset reports whether a value is ~ (null), which has the same effect as a missing key.
func (r *reader) unset(n ast.Node) bool {
	_, null := r.resolve(n).(*ast.NullNode)
	if null {
		r.observe(n, sighting{null: true})
	}
	return null
}

func (r *reader) word(n ast.Node, what string, to *string) {
	if s, ok := r.text(n, what); ok {
		*to = s.value
	}
}

func choiceOf[T ~string](r *reader, n ast.Node, what string, of []T) T {
	words := make([]string, len(of))
	for i, w := range of {
		words[i] = string(w)
	}
	return T(r.choice(n, what, words...))
}

// grammar reads `parse`. It keeps spaces, because a space may be a separator.
func (r *reader) grammar(n ast.Node, what string) signature.Parse {
	var p signature.Parse
	raw := func(key string, to *string) func(ast.Node) {
		return func(n ast.Node) {
			if r.unset(n) {
				return
			}
			s, ok := r.scalar(n, what+" "+key)
			if ok && s.value == "" {
				r.fault(s.at, "%s %s is empty", what, key)
			}
			*to = s.value
		}
	}
	keys := func(key string, to *[]string) func(ast.Node) {
		return func(n ast.Node) {
			if r.unset(n) {
				return
			}
			for _, s := range r.texts(n, what+" "+key) {
				*to = append(*to, s.value)
			}
		}
	}
	ok := r.mapping(n, what, fields{
		"style":    func(n ast.Node) { p.Style = choiceOf(r, n, what+" style", signature.Styles()) },
		"prefix":   raw("prefix", &p.Prefix),
		"pair_sep": raw("pair_sep", &p.PairSep), "kv_sep": raw("kv_sep", &p.KVSep),
		"sig": keys("sig", &p.Sig), "ignore": keys("ignore", &p.Ignore),
		"ts": raw("ts", &p.TS), "id": raw("id", &p.ID), "key_id": raw("key_id", &p.KeyID),
		"sep": raw("sep", &p.Sep), "item_prefix": raw("item_prefix", &p.ItemPrefix), "template": raw("template", &p.Template),
	})
	if ok {
		r.require(n, what, "style")
	}
	return p
}

func (r *reader) timestamp(n ast.Node, what string) signature.Timestamp {
	var t signature.Timestamp
	ok := r.mapping(n, what, fields{
		"from":   func(n ast.Node) { t.From = r.from(n, what+" from") },
		"unit":   func(n ast.Node) { t.Unit = choiceOf(r, n, what+" unit", signature.Units()) },
		"past":   func(n ast.Node) { t.Past = r.duration(n, what+" past") },
		"future": func(n ast.Node) { t.Future = r.duration(n, what+" future") },
	})
	if ok {
		r.require(n, what, "from")
	}
	return t
}

func (r *reader) eventID(n ast.Node, what string) signature.From {
	var f signature.From
	if r.mapping(n, what, fields{"from": func(n ast.Node) { f = r.from(n, what+" from") }}) {
		r.require(n, what, "from")
	}
	return f
}

func (r *reader) from(n ast.Node, what string) signature.From {
	s, _ := r.text(n, what)
	return signature.From(s.value)
}

// content reads the list of the parts that are signed. Without quotes, body is the body of the delivery. In quotes,
// "body" is the word itself.
func (r *reader) content(n ast.Node, what string) []signature.Token {
	all := []signature.Token{}
	for _, n := range r.list(n, what) {
		if t, ok := r.token(n, what); ok {
			all = append(all, t)
		} else {
			return nil
		}
	}
	if len(all) == 0 {
		r.fault(posOf(n), "%s is empty", what)
		return nil
	}
	return all
}

func (r *reader) token(n ast.Node, what string) (signature.Token, bool) {
	if _, block := r.resolve(n).(ast.MapNode); block {
		return r.digest(n, what)
	}
	s, ok := r.scalar(n, what)
	if !ok {
		return signature.Token{}, false
	}
	t, known := signature.ParseToken(s.value)
	v, _ := r.resolve(n).(*ast.StringNode)
	quoted := v != nil && (v.Token.Type == token.DoubleQuoteType || v.Token.Type == token.SingleQuoteType)
	switch {
	case quoted && known:
		r.fault(s.at, "%s: %q in quotes is a literal; remove the quotes to use the token of that name", what, s.raw)
	case quoted:
		return signature.Literal(s.value), true
	case known:
		return t, true
	default:
		r.fault(s.at, "%s: %q is unknown%s; put literals in quotes", what, s.raw, suggestion(s.raw, signature.TokenNames()))
	}
	return signature.Token{}, false
}

func (r *reader) digest(n ast.Node, what string) (signature.Token, bool) {
	var t signature.Token
	set := 0
	all := fields{}
	for _, k := range []signature.Kind{signature.SHA256Hex, signature.SHA256Raw} {
		all[string(k)] = func(n ast.Node) {
			set++
			t = signature.Token{Kind: k, Of: r.content(n, what+" "+string(k))}
		}
	}
	ok := r.mapping(n, what, all)
	if ok && set != 1 {
		r.fault(posOf(n), "%s: want one of sha256hex and sha256raw in a mapping", what)
	}
	return t, ok && set == 1 && t.Of != nil
}
