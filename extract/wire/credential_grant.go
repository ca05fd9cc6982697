package wire

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

type grant struct {
	id       string // id of this token, to which notes refer
	access   Secret
	refresh  Secret    // refresh token of an OAuth grant; a login renews its token with the token itself
	expires  time.Time // zero: the server does not state it
	scopes   []string  // granted scopes; nil: the requested scopes
	signedIn time.Time
	renewed  time.Time
	rotation rotation
}

// rotation says whether the server replaces the refresh token at each renewal. This is known from the last renewal.
type rotation string

const (
	rotationNone rotation = "none" // the same refresh token stays valid
	rotationUsed rotation = "used" // each refresh token is valid once, and perhaps for a moment after its use
)

// margin returns how long before its expiry a token is renewed. Even a token with a short life is used for at least
// three quarters of its life.
func (g grant) margin() time.Duration { return min(30*time.Second, g.expires.Sub(g.renewed)/4) }

// due reports whether the token expires soon. If a token had already expired when it was issued, penstock uses it until
// the server refuses it.
func (g grant) due(now time.Time) bool {
	return g.expires.After(g.renewed) && g.expires.Sub(now) < g.margin()
}

// storedGrant is the stored form of a grant. Tokens are written in no other form.
type storedGrant struct {
	Version  int       `json:"version"`
	ID       string    `json:"id"`
	Access   string    `json:"access_token"`
	Refresh  string    `json:"refresh_token,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Scopes   []string  `json:"scopes,omitzero"`
	SignedIn time.Time `json:"signed_in"`
	Renewed  time.Time `json:"renewed"`
	Rotation rotation  `json:"rotation,omitzero"`
}

const storedVersion = 1

func newGrant(now time.Time, access, refresh Secret) grant {
	return grant{id: rand.Text(), access: access, refresh: refresh, signedIn: now, renewed: now}
}

func (g grant) encode() ([]byte, error) {
	return json.MarshalIndent(storedGrant{
		storedVersion, g.id, g.access.Reveal(), g.refresh.Reveal(), g.expires, g.scopes, g.signedIn, g.renewed, g.rotation,
	}, "", "\t")
}

func decodeGrant(text []byte) (grant, error) {
	if len(text) == 0 {
		return grant{}, nil
	}
	var s storedGrant
	if err := json.Unmarshal(text, &s); err != nil {
		return grant{}, fmt.Errorf("read credential: %w", unquoted(err))
	}
	if s.Version != storedVersion {
		return grant{}, fmt.Errorf("read credential: version %d is from another release", s.Version)
	}
	return grant{s.ID, Secret(s.Access), Secret(s.Refresh), s.Expires, s.Scopes, s.SignedIn, s.Renewed, s.Rotation}, nil
}

// note records what happened to a credential. It holds no secret.
type note struct {
	Version int       `json:"version"`
	Call    *openCall `json:"call,omitzero"`    // a call whose outcome is unknown
	Refused *refusal  `json:"refused,omitzero"` // the server refused the stored grant, or the sign-in
	Outage  *outage   `json:"outage,omitzero"`  // the token endpoint is failing

	SignedOut time.Time `json:"signed_out,omitzero"` // when a person removed the grant

	Recent []time.Time `json:"recent_sign_ins,omitzero"` // the last sign-ins, at most maxSignIns
	Failed int         `json:"failed_sign_ins,omitzero"` // failed sign-ins in a row
	Retry  time.Time   `json:"retry,omitzero"`           // after a failed sign-in: no automatic sign-in before this time
}

// openCall is stored before the call is made. If this process is killed, a later process knows of the call.
type openCall struct {
	Kind callKind  `json:"kind"`
	At   time.Time `json:"at"`
	Of   string    `json:"of,omitzero"` // id of the grant to replace

	Words string `json:"words,omitzero"` // the error, if the call ended with an error and without an answer
}

type refusal struct {
	Kind  callKind  `json:"kind"`
	At    time.Time `json:"at"`
	Of    string    `json:"of,omitzero"`
	Words string    `json:"words"`
	Lost  time.Time `json:"lost,omitzero"` // time of an earlier call whose answer was lost
}

type callKind string

const (
	signInCall  callKind = "sign-in"
	refreshCall callKind = "refresh"
)

func (n note) encode() ([]byte, error) {
	n.Version = storedVersion
	return json.MarshalIndent(n, "", "\t")
}

func decodeNote(text []byte) (note, error) {
	var n note
	if len(text) == 0 {
		return n, nil
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return n, fmt.Errorf("read note of credential: %w", err)
	}
	if n.Version != storedVersion {
		return n, fmt.Errorf("read note of credential: version %d is from another release", n.Version)
	}
	return n, nil
}

// unquoted replaces an error of package json, because the text of such an error may quote a secret.
func unquoted(err error) error {
	if s, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // as Unmarshal returns it
		return fmt.Errorf("not JSON at byte %d", s.Offset)
	}
	return fmt.Errorf("not written by penstock")
}

// Limits for the automatic sign-ins of all processes that share a credential. A sign-in ends all other tokens of the
// user. Without a limit, two programs that sign in as the same user would lock each other out again and again.
const (
	maxSignIns   = 3
	signInWindow = time.Hour
)

// nextSignIn returns when penstock may sign in automatically. It ignores stored times that are implausible: a wrong
// clock has produced them.
func (n note) nextSignIn(now time.Time) time.Time {
	next := now
	if n.Retry.Sub(now) <= 48*time.Hour {
		next = latest(next, n.Retry)
	}
	recent := slices.DeleteFunc(slices.Clone(n.Recent), func(t time.Time) bool { return now.Sub(t).Abs() >= signInWindow })
	if len(recent) >= maxSignIns {
		next = latest(next, slices.MinFunc(recent, time.Time.Compare).Add(signInWindow))
	}
	return next
}

func (n note) maySignIn(now time.Time) bool { return !n.nextSignIn(now).After(now) }

func (n note) signingIn(now time.Time) note {
	n.Recent = append(slices.Clone(n.Recent), now)
	n.Recent = n.Recent[max(0, len(n.Recent)-maxSignIns):]
	n.Call = &openCall{Kind: signInCall, At: now}
	return n
}

func (n note) failedSignIn(now time.Time, waits retry.Policy) note {
	n.Failed++
	n.Retry = now.Add(waits.Wait(n.Failed))
	return n
}

// refreshing returns the note for a refresh that begins. If an earlier refresh was not answered, the note of that
// refresh stays, because that refresh may have taken effect.
func (n note) refreshing(now time.Time, g grant) note {
	if !n.open(g) {
		n.Call = &openCall{Kind: refreshCall, At: now, Of: g.id}
	}
	return n
}

func (n note) open(g grant) bool {
	return n.Call != nil && n.Call.Kind == refreshCall && n.Call.Of == g.id
}

func (n note) dead(g grant) bool {
	return n.Refused != nil && n.Refused.Kind == refreshCall && n.Refused.Of == g.id
}

func (n note) failing(g grant) time.Time {
	switch {
	case n.dead(g), n.Refused != nil && g.access == "":
		return n.Refused.At
	case n.open(g):
		return n.Call.At
	case n.Outage != nil:
		return n.Outage.Since
	}
	return time.Time{}
}
