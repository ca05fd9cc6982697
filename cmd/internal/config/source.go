package config

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
)

// Source is one workspace of the platform, with one or both surfaces.
type Source struct {
	At       Pos
	Name     string
	V2, App  *Surface // nil: not configured
	Webhooks *Webhooks

	// Faults are the errors in a source that comes from a listing. The other sources can still be read.
	Faults Faults
}

// Surface says how to reach one of the two APIs.
type Surface struct {
	At      Pos
	BaseURL string // scheme://host[:port], with a path if the platform is below one
	BaseAt  Pos    // position of the base URL in the file
	Auth    Auth
	Plan    string      // free, pro, business or agency; "": not given
	Rate    budget.Rate // as configured, or the rate of Plan; zero: learned from the server's answers

	Headers map[string]wire.Secret // sent with every request

	Reserve float64       // share of the rate limit that is left to the user's other programs
	MaxWait time.Duration // the longest wait within a request; 0: the default
}

// Auth is one credential; at most one of APIKey, Token, Login and OAuth is set.
type Auth struct {
	At     Pos
	APIKey wire.Secret
	Token  wire.Secret
	Login  *Login
	OAuth  *OAuth

	Header, Scheme string // as in [wire.Options]

	reread func() (wire.Secret, error) // reads APIKey or Token again from its file or command; nil for a literal value
}

// Login is an account of the application surface, with which penstock signs in.
type Login struct {
	Email    string
	Password wire.Secret
}

// planRates are the documented limits of the versioned surface.
var planRates = map[string]budget.Rate{
	"free":     {Limit: 100, Window: time.Second},
	"pro":      {Limit: 100, Window: time.Second},
	"business": {Limit: 500, Window: time.Second},
	"agency":   {Limit: 2000, Window: time.Second},
}

func (r *reader) surface(n ast.Node, what string, kinds ...string) *Surface {
	s := &Surface{At: posOf(n)}
	var rate Pos
	ok := r.mapping(n, what, fields{
		"base_url": func(n ast.Node) { s.BaseURL, s.BaseAt = r.baseURL(n, what+" base_url"), posOf(n) },
		"auth":     func(n ast.Node) { s.Auth = r.auth(n, what+" auth", kinds...) },
		"plan":     func(n ast.Node) { s.Plan = r.choice(n, what+" plan", "free", "pro", "business", "agency") },
		"rate":     func(n ast.Node) { s.Rate, rate = r.rate(n, what+" rate"), posOf(n) },
		"reserve":  func(n ast.Node) { s.Reserve = r.percentage(n, what+" reserve") },
		"max_wait": func(n ast.Node) { s.MaxWait = r.maxWait(n, what+" max_wait") },
		"headers":  func(n ast.Node) { s.Headers = r.headers(n, what+" headers") },
	})
	if !ok {
		return s
	}
	r.require(n, what, "base_url", "auth")
	r.checkHeaders(n, what, s.Headers, s.Auth)
	switch {
	case s.Plan != "" && rate != (Pos{}):
		r.fault(rate, "%s has a plan and a rate; keep one", what)
	case s.Plan != "" && kinds[0] == "api_key":
		s.Rate = planRates[s.Plan]
	}
	return s
}

func (r *reader) require(n ast.Node, what string, keys ...string) {
	es, _ := r.entries(n, what)
	r.observe(n, sighting{needs: keys})
	for _, k := range keys {
		if _, ok := find(es, func(e entry) bool { return e.key == k }); !ok {
			r.fault(posOf(n), "%s has no %s", what, k)
		}
	}
}

func (r *reader) auth(n ast.Node, what string, kinds ...string) Auth {
	a := Auth{At: posOf(n)}
	set := 0
	all := fields{
		"api_key": func(n ast.Node) { a.APIKey, a.reread = r.secret(n, what+" api_key"), r.again(n, what+" api_key") },
		"token":   func(n ast.Node) { a.Token, a.reread = r.secret(n, what+" token"), r.again(n, what+" token") },
		"login":   func(n ast.Node) { a.Login = r.login(n, what+" login") },
		"oauth":   func(n ast.Node) { a.OAuth = r.oauth(n, what+" oauth") },
	}
	allowed := fields{}
	for _, k := range kinds {
		allowed[k] = func(n ast.Node) { set++; all[k](n) }
	}
	var header, scheme *scalar
	allowed["header"] = func(n ast.Node) { header = r.authHeader(n, what+" header") }
	allowed["scheme"] = func(n ast.Node) { scheme = r.authScheme(n, what+" scheme") }
	ok := r.mapping(n, what, allowed)
	if ok && set != 1 {
		r.fault(a.At, "%s holds %d credentials; want one of %s", what, set, oneOf(kinds))
	}
	r.placeAuth(&a, header, scheme, what)
	return a
}

func (r *reader) login(n ast.Node, what string) *Login {
	l := &Login{}
	ok := r.mapping(n, what, fields{
		"email": func(n ast.Node) {
			if s, ok := r.text(n, what+" email"); ok {
				l.Email = s.value
			}
		},
		"password": func(n ast.Node) { l.Password = r.secret(n, what+" password") },
	})
	if ok {
		r.require(n, what, "email", "password")
	}
	return l
}

// secret reads a secret. It rejects characters that a header cannot contain. The error does not quote the value.
func (r *reader) secret(n ast.Node, what string) wire.Secret {
	r.asSecret = true
	s, ok := r.text(n, what)
	r.asSecret = false
	if !ok {
		return ""
	}
	if strings.ContainsFunc(s.value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		r.fault(s.at, "%s contains a control character or a line break", what)
		return ""
	}
	known := wire.Secret(strings.TrimSpace(s.value))
	if known == unread {
		return known // the word that replaces the output of a command that was not run
	}
	r.secrets = append(r.secrets, known)
	return known
}

// again returns a function that reads a credential again: after a server has refused a credential, its file or
// command may have a new one. For a literal value, again returns nil. The function is safe for concurrent use if
// the functions of [Input] are.
func (r *reader) again(n ast.Node, what string) func() (wire.Secret, error) {
	from := reader{Input: r.Input, anchors: r.anchors, row: r.row, rowOf: r.rowOf, rowName: r.rowName}
	if r.Run != nil {
		from.Run = r.commands.again
	}
	plain := from
	plain.Env = func(string) (string, bool) { plain.resolved = true; return "x", true }
	plain.Read = func(string) (string, error) { plain.resolved = true; return "x", nil }
	plain.Run = func([]string) (string, error) { plain.resolved = true; return "x", nil }
	plain.DestinationsOnly = false
	if plain.secret(n, what); !plain.resolved {
		return nil
	}
	return func() (wire.Secret, error) {
		fresh := from
		s := fresh.secret(n, what)
		if len(fresh.faults) > 0 {
			return "", fresh.faults
		}
		return s, nil
	}
}

// rate reads 100/s, 60/m or 1000/h.
func (r *reader) rate(n ast.Node, what string) budget.Rate {
	s, ok := r.text(n, what)
	if !ok {
		return budget.Rate{}
	}
	rate, err := budget.ParseRate(s.value)
	if err != nil {
		r.fault(s.at, "%s %q: want requests per second, minute or hour, such as 100/s or 60/m", what, s.raw)
	}
	return rate
}
