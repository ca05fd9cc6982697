package config

import (
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

// credential returns v, marked as a credential. So the value may come from a command.
func (v value) credential() value {
	v.secret = true
	return v
}

// secret reads a secret. It rejects characters that are not allowed in a header. The error does not quote the value.
func secret(v value) wire.Secret {
	s, ok := v.credential().text()
	if !ok {
		return ""
	}
	if strings.ContainsFunc(s.value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		v.fault(s.at, "%s contains a control character or a line break", v.what)
		return ""
	}
	known := wire.Secret(strings.TrimSpace(s.value))
	if known != unread {
		v.r.secrets = append(v.r.secrets, known)
	}
	return known
}

// again returns a function that reads a credential again. This function is called after a server has refused the
// credential, because the file or command may give a new credential the next time. For a literal value, again returns
// nil. The function is safe for concurrent use if the functions of [Input] are.
func again(v value) func() (wire.Secret, error) {
	read := func(in Input) (wire.Secret, Faults) {
		v := v
		v.r = &reader{Input: in, anchors: v.r.anchors}
		s := secret(v)
		return s, v.r.faults
	}
	in, resolved := v.r.Input, false
	_, _ = read(Input{
		Env:  func(string) (string, bool) { resolved = true; return "x", true },
		Read: func(string) (string, error) { resolved = true; return "x", nil },
		Run:  func([]string) (string, error) { resolved = true; return "x", nil },
	})
	if !resolved {
		return nil
	}
	if in.Run != nil {
		in.Run = v.r.commands.again
	}
	return func() (wire.Secret, error) {
		s, faults := read(in)
		if len(faults) > 0 {
			return "", faults
		}
		return s, nil
	}
}
