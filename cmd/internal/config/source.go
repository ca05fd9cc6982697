package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
)

// Source is one workspace of the platform, with one or both surfaces.
type Source struct {
	At       Pos
	Name     string
	V2, App  *Surface // nil: not configured
	Webhooks *Webhooks

	// Faults are the errors of this source, if it comes from a listing. Other sources can still be read.
	Faults Faults
}

// Surface says how to reach one of the two APIs.
type Surface struct {
	At      Pos
	BaseURL string // scheme://host[:port], and a path if the API is below that path
	BaseAt  Pos    // position of the base URL in the file
	Auth    Auth
	Plan    string      // free, pro, business or agency; "": not given
	Rate    budget.Rate // the configured rate, or the rate of Plan; zero: penstock learns it from the server's answers

	Headers map[string]wire.Secret // sent with every request

	Reserve float64       // share of the rate limit that is left to the user's other programs
	MaxWait time.Duration // the longest time that a request may wait; 0: the default
}

// Auth is one credential. At most one of APIKey, Token, Login and OAuth is set.
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

func readSource(e entry) Source {
	s := Source{At: e.at, Name: e.key}
	v := e.as("source " + e.key)
	ok := v.mapping(fields{
		"v2":       func(v value) { s.V2 = readSurface(v, "api_key", "oauth") },
		"app":      func(v value) { s.App = readSurface(v, "token", "login", "oauth") },
		"webhooks": set(&s.Webhooks, readWebhooks),
	})
	if ok && s.V2 == nil && s.App == nil {
		v.fault(e.at, "%s has neither v2 nor app", v.what)
	}
	return s
}

func readSurface(v value, kinds ...string) *Surface {
	s := &Surface{At: v.pos()}
	var rateAt Pos
	ok := v.mapping(fields{
		"base_url": func(v value) { s.BaseURL, s.BaseAt = baseURL(v), v.pos() },
		"auth":     func(v value) { s.Auth = readAuth(v, kinds...) },
		"plan":     choice(&s.Plan, "free", "pro", "business", "agency"),
		"rate":     func(v value) { s.Rate, rateAt = rate(v), v.pos() },
		"reserve":  set(&s.Reserve, percentage),
		"max_wait": duration(&s.MaxWait, time.Second, 24*time.Hour, "a duration from 1s to 24h, such as 5m"),
		"headers":  set(&s.Headers, headers),
	}, "base_url", "auth")
	if !ok {
		return s
	}
	checkHeaders(v, s.Headers, s.Auth)
	switch {
	case s.Plan != "" && rateAt != (Pos{}):
		v.fault(rateAt, "%s has a plan and a rate; keep one", v.what)
	case s.Plan != "" && kinds[0] == "api_key":
		s.Rate = planRates[s.Plan]
	}
	return s
}

func readAuth(v value, kinds ...string) Auth {
	a := Auth{At: v.pos()}
	given := 0
	all := fields{
		"api_key": func(v value) { a.APIKey, a.reread = secret(v), again(v) },
		"token":   func(v value) { a.Token, a.reread = secret(v), again(v) },
		"login":   set(&a.Login, readLogin),
		"oauth":   set(&a.OAuth, readOAuth),
	}
	var header, scheme *scalar
	allowed := fields{"header": set(&header, authHeader), "scheme": set(&scheme, authScheme)}
	for _, k := range kinds {
		allowed[k] = func(v value) { given++; all[k](v) }
	}
	if v.mapping(allowed) && given != 1 {
		v.fault(a.At, "%s holds %d credentials; want one of %s", v.what, given, oneOf(kinds))
	}
	a.setHeader(v, header, scheme)
	return a
}

func readLogin(v value) *Login {
	l := &Login{}
	v.mapping(fields{"email": text(&l.Email), "password": set(&l.Password, secret)}, "email", "password")
	return l
}

// rate reads 100/s, 60/m or 1000/h.
func rate(v value) budget.Rate {
	return converted(v, "requests per second, minute or hour, such as 100/s or 60/m", func(s string) (budget.Rate, bool) {
		r, err := budget.ParseRate(s)
		return r, err == nil
	})
}

// percentage reads a share, such as 20%.
func percentage(v value) float64 {
	return converted(v, "a share from 0% to 90%, such as 20%", func(s string) (float64, bool) {
		digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
		n, err := strconv.Atoi(strings.TrimSpace(digits))
		return float64(n) / 100, percent && err == nil && 0 <= n && n <= 90
	})
}

// checkCase reports sources whose names differ only in upper and lower case. Some file systems and databases cannot
// distinguish such names. // Invariant 17
func (r *reader) checkCase(sources []Source) {
	seen := map[string]string{}
	for _, s := range sources {
		fold := strings.ToLower(s.Name)
		if other, taken := seen[fold]; taken && other != s.Name {
			r.fault(s.At, "sources %s and %s differ only in upper and lower case", other, s.Name)
		}
		seen[fold] = s.Name
	}
}

// Surface returns the source's settings for one of the two APIs. It returns nil if this API is not configured.
func (s Source) Surface(which schemas.Surface) *Surface {
	if which == schemas.SurfaceV2 {
		return s.V2
	}
	return s.App
}

func (a Auth) set() bool { return a.APIKey != "" || a.Token != "" || a.Login != nil || a.OAuth != nil }

func (a Auth) needsSignIn() bool { return a.Login != nil || a.OAuth != nil }

func (s Source) surfaceAt(origin string) *Surface {
	for _, f := range []*Surface{s.V2, s.App} {
		if f != nil && (f.BaseURL == origin || strings.HasPrefix(f.BaseURL, origin+"/")) {
			return f
		}
	}
	return nil
}
