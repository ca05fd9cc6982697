package signature

import (
	"slices"
	"strings"
)

// parse checks how the signature header is parsed. A field that belongs to another style is a fault; otherwise it
// would be ignored silently.
func (c *check) parse() {
	p := c.Parse
	given := map[string]bool{
		"prefix": p.Prefix != "", "pair_sep": p.PairSep != "", "kv_sep": p.KVSep != "", "sig": p.Sig != nil,
		"ts": p.TS != "", "id": p.ID != "", "key_id": p.KeyID != "", "ignore": p.Ignore != nil,
		"sep": p.Sep != "", "item_prefix": p.ItemPrefix != "", "template": p.Template != "",
	}
	known := map[Style][]string{
		Bare: {}, Prefixed: {"prefix"}, KV: {"pair_sep", "kv_sep", "sig", "ts", "id", "key_id", "ignore"},
		List: {"sep", "item_prefix"}, Template: {"template", "sep"},
	}
	own, ok := known[p.Style]
	if !ok {
		c.fault("parse", "style %q is unknown; want bare, prefix, kv, list or template", p.Style)
		return
	}
	var foreign []string
	for key, set := range given {
		if set && !slices.Contains(own, key) {
			foreign = append(foreign, key)
		}
	}
	slices.Sort(foreign)
	for _, key := range foreign {
		c.fault("parse", "style %s has no %s", p.Style, key)
	}
	switch p.Style {
	case Prefixed:
		if p.Prefix == "" {
			c.fault("parse", "style prefix needs a prefix")
		}
	case KV:
		c.pairs()
	case Template:
		c.template()
	}
}

func (c *check) pairs() {
	p := c.Parse
	if len(p.Sig) == 0 {
		c.fault("parse", "style kv needs the setting sig, which names the keys of the signatures")
	}
	keys := slices.Concat(p.Sig, p.Ignore)
	for _, k := range []string{p.TS, p.ID, p.KeyID} {
		if k != "" {
			keys = append(keys, k)
		}
	}
	for i, k := range keys {
		switch {
		case k == "" || strings.Contains(k, p.KVSep) || strings.Contains(k, p.PairSep):
			c.fault("parse", "%q cannot be a key", k)
		case slices.Contains(keys[:i], k):
			c.fault("parse", "key %q is named twice", k)
		}
	}
	if p.PairSep == p.KVSep {
		c.fault("parse", "pair_sep and kv_sep are the same")
	}
}

func (c *check) template() {
	rest, places := c.Parse.Template, []string{}
	for first := true; ; first = false {
		fixed, after, found := strings.Cut(rest, "{")
		if fixed == "" && !first && found {
			c.fault("parse", "template has two placeholders with nothing between them")
			return
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || !slices.Contains([]string{"sig", "ts", "id", "key_id"}, name) || slices.Contains(places, name) {
			c.fault("parse", "template %q: want {sig}, {ts}, {id} and {key_id}, each at most once", c.Parse.Template)
			return
		}
		places, rest = append(places, name), behind
	}
	if !slices.Contains(places, "sig") {
		c.fault("parse", "template has no {sig}")
	}
}
