package daemon

import "github.com/penstock-data/penstock/cmd/internal/config"

// comparedKey is a key of the configuration, and whether it has the same value in two configurations.
type comparedKey struct {
	name string
	same bool
}

// ChangedAtStart compares two configurations. It checks only the keys that `penstock serve` reads once, when it starts.
// It returns the keys whose values differ.
func ChangedAtStart(was, is config.Config) []string {
	return changed(was, is,
		comparedKey{"serve.listen", was.Serve.Listen == is.Serve.Listen},
		comparedKey{"serve.otlp", sameCollector(was.Serve.OTLP, is.Serve.OTLP)},
		comparedKey{"serve.openlineage", sameCollector(was.Serve.OpenLineage, is.Serve.OpenLineage)})
}

// The function changed() returns the keys whose values differ. It checks the keys that every daemon reads once, when it
// starts. It also checks the keys that the caller adds.
func changed(was, is config.Config, own ...comparedKey) (keys []string) {
	for _, k := range append(own,
		comparedKey{"serve.tls", sameFiles(was.Serve.TLS, is.Serve.TLS)},
		comparedKey{"serve.auth", len(was.Serve.Tokens) == 0 || len(is.Serve.Tokens) > 0}, // changed tokens take effect at once; only the removal of all tokens needs a restart
		comparedKey{"state", was.State.Dir == is.State.Dir && was.State.URL == is.State.URL && was.State.Keyring == is.State.Keyring},
	) {
		if !k.same {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// sameFiles reports whether a and b name the same certificate files.
func sameFiles(a, b *config.ServeTLS) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cert == b.Cert && a.Key == b.Key
}

// sameCollector reports whether a and b have the same address and the same token.
func sameCollector(a, b *config.Collector) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.URL == b.URL && a.Token == b.Token
}
