package config

import (
	"strings"
)

// expand fills in ${NAME} from the environment and ${file:PATH} from a file,
// whose trailing line breaks are not part of it. `$${` is a literal `${`. Text
// that was filled in is not looked at again.
func (r *reader) expand(raw string, at Pos) (string, bool) {
	var b strings.Builder
	ok := true
	for rest := raw; ; {
		head, tail, found := strings.Cut(rest, "${")
		if escaped, yes := strings.CutSuffix(head, "$"); found && yes {
			b.WriteString(escaped + "${")
			rest = tail
			continue
		}
		b.WriteString(head)
		if !found {
			return b.String(), ok
		}
		name, after, closed := strings.Cut(tail, "}")
		if !closed {
			r.fault(at, "${ without its }")
			return "", false
		}
		v, set := r.reference(strings.TrimSpace(name), at)
		b.WriteString(v)
		ok = ok && set
		rest = after
	}
}

// reference looks one ${…} up. An empty value is as good as a missing one: an
// empty credential would only fail later and less clearly.
func (r *reader) reference(name string, at Pos) (string, bool) {
	if path, file := strings.CutPrefix(name, "file:"); file {
		v, err := r.Read(strings.TrimSpace(path))
		if err != nil {
			r.fault(at, "${file:%s}: %v", path, err)
			return "", false
		}
		if v = strings.TrimRight(v, "\r\n"); v == "" {
			r.fault(at, "${file:%s} is empty", path)
			return "", false
		}
		return v, true
	}
	if !isEnvName(name) {
		r.fault(at, "${%s} is no variable's name; want ${NAME} or ${file:PATH}", name)
		return "", false
	}
	v, set := r.Env(name)
	switch {
	case !set:
		r.fault(at, "environment variable %s is not set", name)
	case v == "":
		r.fault(at, "environment variable %s is empty", name)
	}
	return v, v != ""
}

func isEnvName(s string) bool {
	for i, c := range s {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
