package daemon

import "github.com/penstock-data/penstock/cmd/internal/config"

// ChangedAtStart compares two configurations and returns the different keys that are read only at start.
func ChangedAtStart(was, is config.Config) (keys []string) {
	for _, k := range []struct {
		name string
		same bool
	}{
		{"serve.listen", was.Serve.Listen == is.Serve.Listen},
		{"serve.tls", sameFiles(was.Serve.TLS, is.Serve.TLS)},
		{"serve.auth", len(was.Serve.Tokens) == 0 || len(is.Serve.Tokens) > 0}, // changed tokens apply at once
		{"serve.otlp", sameCollector(was.Serve.OTLP, is.Serve.OTLP)},
		{"serve.openlineage", sameCollector(was.Serve.OpenLineage, is.Serve.OpenLineage)},
		{"state", was.State.Dir == is.State.Dir && was.State.URL == is.State.URL && was.State.Keyring == is.State.Keyring},
	} {
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
