package config

import (
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// Command is a command that runs after each complete run of a pipeline.
type Command struct {
	At      Pos
	Words   []string               // the program and its arguments; no shell reads them
	Env     map[string]wire.Secret // variables that the command gets besides those that every command gets
	Timeout time.Duration
}

const (
	commandTimeout = time.Hour // default
	maxCommands    = 20        // of one pipeline
)

// readAfter reads the commands of a pipeline.
func readAfter(v value) (all []Command) {
	for _, item := range v.list() {
		c := Command{At: item.pos(), Timeout: commandTimeout}
		item.mapping(fields{
			"run":     set(&c.Words, commandWords),
			"env":     set(&c.Env, variables),
			"timeout": duration(&c.Timeout, time.Second, 24*time.Hour, "a duration from 1s to 24h, such as 30m"),
		}, "run")
		all = append(all, c)
	}
	if len(all) > maxCommands {
		v.fault(v.pos(), "%s: more than %d commands", v.what, maxCommands)
	}
	return all
}

// commandWords reads a program and its arguments. They cannot contain ${…}, because other users of the machine can see
// the arguments of a process. // Invariant 5
func commandWords(v value) []string {
	if !v.isList() {
		v.wrong("a list of words, such as [dbt, build]")
		return nil
	}
	var all []string
	for _, s := range v.texts() {
		if s.raw != s.value {
			v.fault(s.at, "%s: %q: other users can see the arguments of a program; set a variable under `env` instead", v.what, s.raw)
		}
		all = append(all, s.value)
	}
	v.notEmpty(len(all))
	return all
}

// variables reads names and values of environment variables. A value is a secret if it contains ${…}, or if its name
// suggests one. // Invariant 5
func variables(v value) map[string]wire.Secret {
	es, _ := v.entries()
	all := map[string]wire.Secret{}
	for _, e := range es {
		s, ok := e.credential().text()
		switch {
		case !ok:
			continue
		case !isEnvName(e.key):
			v.fault(e.at, "%s: %q is not a valid name of a variable", v.what, e.key)
			continue
		case strings.ContainsRune(s.value, 0):
			v.fault(s.at, "%s %s contains a zero byte", v.what, e.key)
			continue
		}
		of := wire.Secret(s.value)
		if of != unread && (s.raw != s.value || secretName.MatchString(e.key)) {
			for line := range strings.Lines(s.value) { // a program may print one line of a key
				v.r.secrets = append(v.r.secrets, wire.Secret(strings.TrimSpace(line)))
			}
		}
		all[e.key] = of
	}
	return all
}
