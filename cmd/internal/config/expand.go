package config

import "strings"

// expand replaces ${NAME}, ${env:NAME}, ${file:PATH} and ${cmd:PROGRAM ARGUMENTS} by their values. `$${` becomes `${`.
// If the value itself contains a ${…}, that text is not expanded.
func (v value) expand(raw string) (string, bool) {
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
			v.fault(v.pos(), "${ without a closing }")
			return "", false
		}
		of, set := v.reference(strings.TrimSpace(name))
		b.WriteString(of)
		ok = ok && set
		rest = after
	}
}

// reference returns the value of one ${…}. An empty value is an error. Otherwise an empty credential would cause a less
// clear error later.
func (v value) reference(name string) (string, bool) {
	if path, file := strings.CutPrefix(name, "file:"); file {
		text, err := v.r.Read(strings.TrimSpace(path))
		return v.inserted("file:"+path, text, err, " is empty")
	}
	if command, cmd := strings.CutPrefix(name, "cmd:"); cmd {
		return v.printed(command)
	}
	name = strings.TrimSpace(strings.TrimPrefix(name, "env:"))
	if !isEnvName(name) {
		v.fault(v.pos(), "${%s} is not a valid variable name; want ${NAME}, ${file:PATH} or ${cmd:PROGRAM ARGUMENTS}", name)
		return "", false
	}
	text, set := v.r.Env(name)
	switch {
	case text == "" && v.needless():
		v.r.left++
	case !set:
		v.fault(v.pos(), "environment variable %s is not set", name)
		v.r.faults[len(v.r.faults)-1].cause = ErrUnset
	case text == "":
		v.fault(v.pos(), "environment variable %s is empty", name)
	}
	return text, text != ""
}

// needless reports whether the current command of penstock does not need the value: the command reads only destinations
// and the state, and the value is in a source or is a credential of another part. If such a value cannot be resolved,
// there is no fault, and the key has no value.
func (v value) needless() bool { return v.r.DestinationsOnly && !v.place && (v.source || v.secret) }

// inserted returns the content of a file or the output of a command, without the line breaks at the end. If the content
// or output is empty, inserted reports a fault.
func (v value) inserted(name, text string, err error, empty string) (string, bool) {
	text = strings.TrimRight(text, "\r\n")
	switch {
	case (err != nil || text == "") && v.needless():
		v.r.left++
	case err != nil:
		v.fault(v.pos(), "${%s}: %v", name, err)
	case text == "":
		v.fault(v.pos(), "${%s}%s", name, empty)
	default:
		return text, true
	}
	return "", false
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

// printed returns the output of a command. Only credentials, destinations and the state may use a command. If the
// current command of penstock reads no source, the commands of credentials are not run.
func (v value) printed(command string) (string, bool) {
	argv, ok := words(command)
	switch {
	case !ok || len(argv) == 0:
		v.fault(v.pos(), "${cmd:%s}: want a program and its arguments, with quotes around an argument that has spaces", command)
		return "", false
	case !v.secret && !v.place:
		v.fault(v.pos(), "${cmd:…} is for credentials, destinations and the state; here, want ${NAME} or ${file:PATH}")
		return "", false
	case v.r.Run == nil, v.r.DestinationsOnly && !v.place:
		return unread, true
	}
	text, err := v.r.Run(argv)
	return v.inserted("cmd:"+command, text, err, ": the command printed nothing")
}

// unread is the value of a credential whose command was not run, because the current command of penstock reads no
// source.
const unread = "not read"

// words splits a command at spaces. An argument with spaces can be put in quotes. Unlike in a shell, no other character
// has a special meaning.
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
