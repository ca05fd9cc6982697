package config

import (
	"strings"
)

// expand replaces ${NAME}, ${env:NAME}, ${file:PATH} and ${cmd:PROGRAM ARGUMENTS}. `$${` becomes `${`. A
// reference in an inserted value stays as it is.
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
			r.fault(at, "${ without a closing }")
			return "", false
		}
		v, set := r.reference(strings.TrimSpace(name), at)
		b.WriteString(v)
		ok = ok && set
		rest = after
	}
}

// reference returns the value of one ${…}. An empty value is an error here, because an empty credential would
// cause a less clear error later.
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
	if command, cmd := strings.CutPrefix(name, "cmd:"); cmd {
		return r.printed(command, at)
	}
	name = strings.TrimSpace(strings.TrimPrefix(name, "env:"))
	if !isEnvName(name) {
		r.fault(at, "${%s} is not a valid variable name; want ${NAME}, ${file:PATH} or ${cmd:PROGRAM ARGUMENTS}", name)
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

// printed returns the output of a command. Only credentials, destinations and the state may name a command. Verbs
// that read no source do not run the commands of credentials.
func (r *reader) printed(command string, at Pos) (string, bool) {
	argv, ok := words(command)
	switch {
	case !ok || len(argv) == 0:
		r.fault(at, "${cmd:%s}: want a program and its arguments, with quotes around an argument that has spaces", command)
		return "", false
	case !r.asSecret && !r.readingPlace:
		r.fault(at, "${cmd:…} is for credentials, destinations and the state; here, want ${NAME} or ${file:PATH}")
		return "", false
	case r.Run == nil, r.DestinationsOnly && r.asSecret && !r.readingPlace:
		return unread, true
	}
	v, err := r.Run(argv)
	if err != nil {
		r.fault(at, "${cmd:%s}: %v", command, err)
		return "", false
	}
	if v = strings.TrimRight(v, "\r\n"); v == "" {
		r.fault(at, "${cmd:%s}: the command printed nothing", command)
		return "", false
	}
	return v, true
}

// unread is the value of a credential whose command is not run, because the current verb of penstock needs no source.
const unread = "not read"

// words splits a command at spaces. Quotes keep an argument with spaces together. Nothing else has a special
// meaning, unlike in a shell.
func words(command string) (all []string, ok bool) {
	var word strings.Builder
	begun, quote := false, rune(0)
	for _, c := range command {
		switch {
		case c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		all = append(all, word.String())
	}
	return all, quote == 0
}
