package wire

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

type grant struct {
	id       string // of this token; notes refer to it
	access   Secret
	refresh  Secret    // of an OAuth grant; a login renews its token with the token itself
	expires  time.Time // zero: the server has not said
	scopes   []string  // granted scopes; nil: those that were requested
	signedIn time.Time
	renewed  time.Time
	rotation rotation
}

// rotation says whether the server rotates refresh tokens, as the last renewal showed.
type rotation string

const (
	rotationNone rotation = "none" // the same refresh token stays valid
	rotationUsed rotation = "used" // each refresh token is valid once, and perhaps for a moment after its use
)

// margin renews a short-lived token later, so that at least three quarters of its life are used.
func (g grant) margin() time.Duration { return min(30*time.Second, g.expires.Sub(g.renewed)/4) }

// due reports whether the token is about to expire. A token that had expired when it was issued is used until the
// server refuses it.
func (g grant) due(now time.Time) bool {
	return g.expires.After(g.renewed) && g.expires.Sub(now) < g.margin()
}

// storedGrant is the only form in which a token is written out.
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

// note records what happened to a credential. It contains no secret.
type note struct {
	Version int       `json:"version"`
	Call    *openCall `json:"call,omitzero"`    // a call with an unknown outcome
	Refused *refusal  `json:"refused,omitzero"` // of the stored grant, or of the sign-in
	Outage  *outage   `json:"outage,omitzero"`  // of the token endpoint

	SignedOut time.Time `json:"signed_out,omitzero"` // when a person removed the grant

	Recent []time.Time `json:"recent_sign_ins,omitzero"` // the last sign-ins, at most maxSignIns
	Failed int         `json:"failed_sign_ins,omitzero"` // in a row, including the last
	Retry  time.Time   `json:"retry,omitzero"`           // no automatic sign-in before this time, after a failed one
}

// openCall is stored before the call is made, so that a later process knows about the call if this one is killed.
type openCall struct {
	Kind callKind  `json:"kind"`
	At   time.Time `json:"at"`
	Of   string    `json:"of,omitzero"` // the grant to replace

	Words string `json:"words,omitzero"` // the error that came instead of the answer, if known
}

type refusal struct {
	Kind  callKind  `json:"kind"`
	At    time.Time `json:"at"`
	Of    string    `json:"of,omitzero"`
	Words string    `json:"words"`
	Lost  time.Time `json:"lost,omitzero"` // when an earlier answer was lost
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

// unquoted replaces a JSON error, which may quote the text, by one that does not.
func unquoted(err error) error {
	if s, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // as Unmarshal returns it
		return fmt.Errorf("not JSON at byte %d", s.Offset)
	}
	return fmt.Errorf("not written by penstock")
}

// maxSignIns is how many automatic sign-ins the processes that share a credential make within signInWindow. A sign-in
// ends every other token of its user, so two programs that keep signing in as the same user would lock each other
// out.
const (
	maxSignIns   = 3
	signInWindow = time.Hour
)

// refusedPause returns the wait before the next automatic sign-in after n refused ones in a row.
func refusedPause(n int) time.Duration { return backoff(time.Hour, 24*time.Hour, n) }

// lostPause is for unanswered sign-ins. The first wait is shorter than that of refusedPause, because the cause may
// pass by itself.
func lostPause(n int) time.Duration { return backoff(time.Minute, 24*time.Hour, n) }

// nextSignIn ignores stored times that only a wrong clock could have produced.
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

func (n note) failedSignIn(now time.Time, pause func(int) time.Duration) note {
	n.Failed++
	n.Retry = now.Add(pause(n.Failed))
	return n
}

// refreshing keeps the record of an earlier refresh that was not answered, because it may have taken effect.
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
