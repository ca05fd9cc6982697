package signature

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// YAML returns the scheme as a configuration block, with one key per line. The block includes defaults.
func (s Scheme) YAML() string {
	s = s.filled()
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	line("name", s.Name)
	line("header", s.Header)
	line("parse", s.Parse.yaml())
	if !s.Timestamp.From.nowhere() {
		t := s.Timestamp
		line("timestamp", fmt.Sprintf("{from: %s, unit: %s, past: %s, future: %s}", quoted(string(t.From)), t.Unit, span(t.Past), span(t.Future)))
	}
	line("event_id", "{from: "+quoted(string(or(s.EventID, None)))+"}")
	line("content", tokenList(s.Content))
	line("algorithm", string(s.Algorithm))
	if s.AllowWeak {
		line("allow_weak", "true")
	}
	line("encoding", string(s.Encoding))
	line("key_encoding", string(s.KeyEncoding))
	if s.PublicURL != "" {
		line("public_url", strconv.Quote(s.PublicURL))
	}
	return b.String()
}

func (p Parse) yaml() string {
	parts := []string{"style: " + string(p.Style)}
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, key+": "+strconv.Quote(value))
		}
	}
	list := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		words := make([]string, len(values))
		for i, v := range values {
			words[i] = strconv.Quote(v)
		}
		parts = append(parts, key+": ["+strings.Join(words, ", ")+"]")
	}
	add("prefix", p.Prefix)
	add("pair_sep", p.PairSep)
	add("kv_sep", p.KVSep)
	list("sig", p.Sig)
	add("ts", p.TS)
	add("id", p.ID)
	add("key_id", p.KeyID)
	list("ignore", p.Ignore)
	add("sep", p.Sep)
	add("item_prefix", p.ItemPrefix)
	add("template", p.Template)
	return "{" + strings.Join(parts, ", ") + "}"
}

func quoted(text string) string {
	if strings.Contains(text, ":") {
		return strconv.Quote(text)
	}
	return text
}

func span(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	return d.String()
}
