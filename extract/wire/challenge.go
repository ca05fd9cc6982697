package wire

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// Why the server does not accept a token, as in RFC 6750, section 3.1.
const (
	ChallengeToken = "invalid_token"      // the token has expired or was revoked
	ChallengeScope = "insufficient_scope" // the token does not permit this request
)

var (
	challengeError = regexp.MustCompile(`(?i)\berror\s*=\s*"?([a-z_]+)`)
	challengeScope = regexp.MustCompile(`(?i)\bscope\s*=\s*(?:"([^"]*)"|([^\s,"]+))`)
)

// challengeOf reads the WWW-Authenticate header. Some servers send the error in the body instead.
func challengeOf(resp *http.Response, body []byte) (challenge, scope string) {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return "", ""
	}
	for _, v := range resp.Header.Values("WWW-Authenticate") {
		kind, params, _ := strings.Cut(strings.TrimSpace(v), " ")
		if !strings.EqualFold(kind, "Bearer") && !strings.EqualFold(kind, "DPoP") {
			continue
		}
		if m := challengeError.FindStringSubmatch(params); m != nil {
			challenge = strings.ToLower(m[1])
		}
		if m := challengeScope.FindStringSubmatch(params); m != nil {
			scope = m[1] + m[2]
		}
	}
	if challenge == "" {
		var e struct {
			Error string `json:"error"`
			Scope string `json:"scope"`
		}
		if json.Unmarshal(body, &e) == nil {
			challenge, scope = e.Error, e.Scope
		}
	}
	switch challenge {
	case ChallengeToken:
		return challenge, ""
	case ChallengeScope:
		return challenge, scope
	}
	return "", ""
}
