package open

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

// Origins returns the address that each stream of a source is read from, by stream name.
func Origins(s config.Source, streams []config.Stream) map[string]load.Origin {
	out := make(map[string]load.Origin, len(streams))
	for _, st := range streams {
		base := st.Origin
		if surface := s.Surface(st.Surface); base == "" && surface != nil {
			base = surface.BaseURL
		}
		out[st.Name] = load.Origin{Source: s.Name, Address: Address(base)}
	}
	return out
}

// Address returns a form of a base URL that may be shown: scheme, host, port, and a fingerprint of the path. The path
// itself may contain a secret. // Invariant 5
func Address(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return ""
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	address := scheme + "://" + host
	if path := strings.Trim(u.EscapedPath(), "/"); path != "" {
		sum := sha256.Sum256([]byte("penstock " + path))
		address += "/~" + hex.EncodeToString(sum[:4])
	}
	return address
}
