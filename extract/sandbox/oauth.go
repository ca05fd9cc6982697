package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The OAuth clients: a public client, and one with a secret.
const (
	OAuthClient       = "penstock-sandbox"
	OAuthConfidential = "penstock-sandbox-server"
	OAuthSecret       = "cs_sandbox_secret"
)

const (
	authorizePath = "/oauth/authorize"
	tokenPath     = "/oauth/token"
)

const tokenLife = time.Hour

// grants implements OAuth. A refresh token that is used twice ends its grant, as on a strict server.
type grants struct {
	mu    sync.Mutex
	codes map[string]authorization
	fresh map[string]authorization // grants by unused refresh token
	spent map[string]authorization // grants by used refresh token
}

type authorization struct {
	id        string
	client    string
	redirect  string
	challenge string
	scopes    []string
	until     time.Time // expiry of a code
}

func newGrants() *grants {
	return &grants{codes: map[string]authorization{}, fresh: map[string]authorization{}, spent: map[string]authorization{}}
}

func (s *Server) oauth(w http.ResponseWriter, r *http.Request) {
	t := target{method: r.Method, template: r.URL.Path, surface: "v2"}
	s.counter.call(t.method, t.template, "", true)
	tally := s.counter.begin("oauth", time.Since(s.start))
	genuine := func() reply {
		switch t.method + " " + t.template {
		case "GET " + authorizePath:
			return s.grants.authorize(r)
		case "POST " + tokenPath:
			return s.grants.tokenFor(r, s.tokens)
		}
		return v2Error(http.StatusNotFound, "not_found", "No such address.")
	}
	var answer reply
	defer func() { s.counter.end(tally, answer, time.Since(s.start)) }()
	if fault, struck := s.faults.match(t, ""); struck {
		answer = s.spoil(r, t, fault, params{}, genuine)
	} else {
		answer = genuine()
	}
	s.write(w, r, answer)
}

func (g *grants) authorize(r *http.Request) reply {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || !onLoopback(back) || !slices.Contains([]string{OAuthClient, OAuthConfidential}, q.Get("client_id")) {
		return v2Error(http.StatusBadRequest, "invalid_request", "Unknown client or redirect address.")
	}
	out := url.Values{"state": {q.Get("state")}, "iss": {"http://" + r.Host}}
	switch {
	case q.Get("response_type") != "code":
		out.Set("error", "unsupported_response_type")
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		out.Set("error", "invalid_request")
		out.Set("error_description", "PKCE with S256 is required.")
	default:
		code := "code_" + rand.Text()
		out.Set("code", code)
		g.mu.Lock()
		g.codes[code] = authorization{
			id: rand.Text(), client: q.Get("client_id"), redirect: back.String(), challenge: q.Get("code_challenge"),
			scopes: strings.Fields(q.Get("scope")), until: time.Now().Add(time.Minute),
		}
		g.mu.Unlock()
	}
	back.RawQuery = out.Encode()
	answer := htmlReply(http.StatusFound, "")
	answer.header.Set("Location", back.String())
	return answer
}

func onLoopback(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && ip != nil && ip.IsLoopback()
}

func (g *grants) tokenFor(r *http.Request, issued *tokens) reply {
	if r.ParseForm() != nil {
		return oauthError(http.StatusBadRequest, "invalid_request")
	}
	client, ok := clientOf(r)
	if !ok {
		return oauthError(http.StatusUnauthorized, "invalid_client")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var a authorization
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		code := r.PostForm.Get("code")
		a, ok = g.codes[code]
		delete(g.codes, code) // a code is valid once
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		ok = ok && time.Now().Before(a.until) && a.redirect == r.PostForm.Get("redirect_uri") &&
			a.challenge == base64.RawURLEncoding.EncodeToString(sum[:])
	case "refresh_token":
		a, ok = g.rotate(r.PostForm.Get("refresh_token"))
		if !ok && a.id != "" {
			issued.endGrant(a.id)
		}
	default:
		return oauthError(http.StatusBadRequest, "unsupported_grant_type")
	}
	if !ok || a.client != client {
		return oauthError(http.StatusBadRequest, "invalid_grant")
	}
	refresh := "rt_" + rand.Text()
	g.fresh[refresh] = a
	return jsonReply(http.StatusOK, obj("access_token", issued.grant(a), "token_type", "Bearer",
		"expires_in", int(tokenLife.Seconds()), "refresh_token", refresh, "scope", strings.Join(a.scopes, " ")))
}

func (g *grants) rotate(token string) (authorization, bool) {
	if a, twice := g.spent[token]; twice {
		for t, other := range g.fresh {
			if other.id == a.id {
				delete(g.fresh, t)
			}
		}
		return a, false
	}
	a, ok := g.fresh[token]
	if ok {
		delete(g.fresh, token)
		g.spent[token] = a
	}
	return a, ok
}

func clientOf(r *http.Request) (string, bool) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	switch id {
	case OAuthClient:
		return id, secret == ""
	case OAuthConfidential:
		return id, secret == OAuthSecret
	}
	return id, false
}

func oauthError(status int, code string) reply {
	return jsonReply(status, obj("error", code, "error_description", "The request was refused: "+code+"."))
}
