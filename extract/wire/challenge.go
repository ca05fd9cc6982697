package wire

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// The reasons why a token is not accepted, as in RFC 6750, section 3.1.
const (
	ChallengeToken = "invalid_token"      // it has expired or was revoked
	ChallengeScope = "insufficient_scope" // it does not permit this request
)

var (
	challengeError = regexp.MustCompile(`(?i)\berror\s*=\s*"?([a-z_]+)`)
	challengeScope = regexp.MustCompile(`(?i)\bscope\s*=\s*(?:"([^"]*)"|([^\s,"]+))`)
)

// challengeOf reads WWW-Authenticate or, as some servers do, the error in the body.
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
