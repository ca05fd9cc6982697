package signature

import (
	"slices"
	"strings"
)

type grammar struct {
	Parse
	header string
	sig    string // the first signature
	ts     string // the time; "" if there is none
	word   string // the word before the signature, such as v0; some senders sign this word too
}

// grammars returns the ways to parse a signature header. Of two equivalent ways, the more likely one comes first.
func (l *learner) grammars(header, value string) []grammar {
	all := l.pairs(header, value)
	prefixes := prefixesOf(value)
	for _, p := range prefixes {
		if strings.HasSuffix(p, ",") || strings.Contains(value, " ") {
			all = append(all, Parse{Style: List, ItemPrefix: p})
		}
	}
	if t := templateOf(value); t != "" {
		all = append(all, Parse{Style: Template, Template: t, Sep: ","})
	}
	for _, p := range prefixes {
		all = append(all, Parse{Style: Prefixed, Prefix: p})
	}
	all = append(all, Parse{Style: Bare}, Parse{Style: List}, Parse{Style: List, Sep: ","})
	var good []grammar
	for _, p := range all {
		var f fields
		if p = p.filled(); p.parse(value, &f) && len(proofs(f.sigs[0])) > 0 {
			good = append(good, grammar{p, header, f.sigs[0], f.ts, strings.TrimRight(p.Prefix, "=:,/. ")})
		}
	}
	return good
}

func prefixesOf(value string) []string {
	var all []string
	for i, c := range []byte(value[:min(len(value), 64)]) {
		if strings.IndexByte("=:,/. ", c) >= 0 && i+1 < len(value) {
			all = append(all, value[:i+1])
		}
	}
	return all
}

// templateOf returns the template {key_id}/SHA256/{sig} for a header KEY/SHA256/SIGNATURE. It returns "" for a
// header without slashes.
func templateOf(value string) string {
	item, _, _ := strings.Cut(value, ",")
	steps := strings.Split(item, "/")
	if len(steps) < 2 || len(steps) > 6 {
		return ""
	}
	last := len(steps) - 1
	for i, step := range steps[:last] {
		switch {
		case unitOf(step) != "" && !slices.Contains(steps[:i], "{ts}"):
			steps[i] = "{ts}"
		case i == 0:
			steps[i] = "{key_id}"
		case step == "" || strings.ContainsAny(step, "{}"):
			return ""
		}
	}
	steps[last] = "{sig}"
	return strings.Join(steps, "/")
}

// pairs returns the ways to parse a header as pairs of keys and values. Keys that have no signature, time or id
// in any sample are ignored.
func (l *learner) pairs(header, value string) []Parse {
	var all []Parse
	for _, sep := range []string{",", ", ", ";", "; ", "&", " "} {
		for _, kv := range []string{"=", ":"} {
			var sigs, times, others []string
			ok := eachPair(value, sep, kv, func(key, value string) {
				switch {
				case unitOf(value) != "":
					times = append(times, key)
				case len(proofs(value)) > 0:
					sigs = append(sigs, key)
				}
			})
			if !ok || !strings.Contains(value, sep) {
				continue
			}
			for i := range l.samples {
				v, _ := single(l.samples[i].Header, header)
				eachPair(v, sep, kv, func(key, _ string) { others = append(others, key) })
			}
			slices.Sort(others)
			all = append(all, pairsOf(Parse{Style: KV, PairSep: sep, KVSep: kv}, distinct(sigs), distinct(times), distinct(others))...)
		}
	}
	return all
}

// pairsOf returns one way to parse for each combination of a signature's key and a time's key. If other keys have "id"
// in their names, the first of them is taken as the key of the id.
func pairsOf(p Parse, sigs, times, keys []string) []Parse {
	var all []Parse
	for _, sig := range sigs {
		for _, ts := range append(slices.Clone(times), "") {
			if ts == "" && len(times) > 0 {
				break // not needed: placed() removes the key of the time if no time is signed
			}
			p.Sig, p.TS, p.ID, p.Ignore = []string{sig}, ts, "", nil
			for _, k := range keys {
				switch {
				case k == sig || k == ts:
				case p.ID == "" && strings.Contains(strings.ToLower(k), "id"):
					p.ID = k
				default:
					p.Ignore = append(p.Ignore, k)
				}
			}
			all = append(all, p)
		}
	}
	return all
}

// The function distinct() returns the different texts, at most maxSignatures.
func distinct(all []string) []string {
	var once []string
	for _, s := range all {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once[:min(len(once), maxSignatures)]
}

func eachPair(value, sep, kv string, take func(key, value string)) bool {
	return eachItem(value, sep, func(item string) bool {
		key, value, ok := strings.Cut(item, kv)
		if !ok || key == "" || value == "" || strings.ContainsAny(key, " ,;&") {
			return false
		}
		take(key, value)
		return true
	})
}
