package config

import (
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/extract/wire"
)

// Defaults for missing settings.
const (
	// DefaultFile is the configuration file that is read without -c.
	DefaultFile   = "pipelines.yaml"
	DefaultState  = ".penstock"
	DefaultListen = "127.0.0.1:8080"

	DefaultWorkerListen = "127.0.0.1:8081"
)

// State is where caches, locks and the inbox are stored.
type State struct {
	At  Pos
	Dir string      // a directory; "" if URL is set
	URL wire.Secret // a postgres:// database that several processes share

	Key     wire.Secret // age identities, one per line, which encrypt tokens; "": no encryption
	Keyring bool        // store tokens in the keyring of the operating system
}

// readState reads a directory, the URL of a database, or a mapping.
func readState(v value) State {
	if !v.isMapping() {
		return v.r.withStateKey(statePath(v), "")
	}
	st := State{At: v.pos(), Dir: DefaultState}
	tokens := ""
	var key wire.Secret
	v.mapping(fields{
		"path":   func(path value) { st = statePath(path.as(v.what)) },
		"tokens": choice(&tokens, "file", "keyring"),
		"key":    set(&key, identity),
	})
	st.Keyring = tokens == "keyring"
	if st.Keyring && st.URL != "" {
		v.fault(st.At, "state tokens: a shared database stores tokens itself, encrypted; remove keyring")
	}
	return v.r.withStateKey(st, key)
}

// StateKeyName is the environment variable that has the key of the state, unless the file sets the key.
const StateKeyName = "PENSTOCK_STATE_KEY"

func (r *reader) withStateKey(st State, key wire.Secret) State {
	if text, set := r.Env(StateKeyName); set && key == "" {
		key = wire.Secret(strings.TrimSpace(text))
		r.secrets = append(r.secrets, key)
	}
	st.Key = key
	return st
}

func identity(v value) wire.Secret {
	s, ok := v.text()
	if !ok {
		return ""
	}
	key := strings.TrimSpace(s.value)
	for line := range strings.Lines(key) {
		v.r.secrets = append(v.r.secrets, wire.Secret(strings.TrimSpace(line)))
	}
	return wire.Secret(key)
}

func statePath(v value) State {
	s, ok := v.text()
	if !ok {
		return State{At: v.pos()}
	}
	scheme, _, isURL := strings.Cut(s.value, "://")
	switch {
	case !isURL:
		return State{At: s.at, Dir: s.value}
	case scheme == "postgres" || scheme == "postgresql":
		if u, err := url.Parse(s.value); err == nil {
			if password, set := u.User.Password(); set && password != "" {
				v.r.secrets = append(v.r.secrets, wire.Secret(password))
			}
		}
		return State{At: s.at, URL: wire.Secret(s.value)}
	}
	v.fault(s.at, "state is neither a directory nor a postgres:// URL")
	return State{At: s.at}
}
