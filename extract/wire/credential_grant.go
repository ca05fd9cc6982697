package wire

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// grant is what a sign-in has brought and its renewals have kept alive.
type grant struct {
	id       string // of this token, told in notes in its place
	access   Secret
	refresh  Secret    // of an OAuth grant; a login's token is renewed with itself
	expires  time.Time // zero: not said
	scopes   []string  // given; nil: those that were asked for
	signedIn time.Time
	renewed  time.Time
	rotation rotation
}

// rotation is what the last renewal showed of the server's refresh tokens.
type rotation string

const (
	rotationNone rotation = "none" // the same one is good again
	rotationUsed rotation = "used" // each is good once, or for a moment more
)

// margin is how long before its end a token is renewed: one that is good for a short
// time only, later, so that it is used for most of that.
func (g grant) margin() time.Duration { return min(30*time.Second, g.expires.Sub(g.renewed)/4) }

// due reports whether the token is about to end. One that ended when it came goes by
// the server's word alone.
func (g grant) due(now time.Time) bool {
	return g.expires.After(g.renewed) && g.expires.Sub(now) < g.margin()
}

// storedGrant is a grant where it is kept. Nothing else ever prints a token.
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

// newGrant is a grant of this moment, by the clock of the slot.
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
		return grant{}, fmt.Errorf("read credential: version %d is not of this release", s.Version)
	}
	return grant{s.ID, Secret(s.Access), Secret(s.Refresh), s.Expires, s.Scopes, s.SignedIn, s.Renewed, s.Rotation}, nil
}

// note is what has become of a credential, without a secret.
type note struct {
	Version int       `json:"version"`
	Call    *openCall `json:"call,omitzero"`    // whose outcome is not known
	Refused *refusal  `json:"refused,omitzero"` // of the grant that is kept, or of the sign-in
	Outage  *outage   `json:"outage,omitzero"`  // of the token endpoint

	SignedOut time.Time `json:"signed_out,omitzero"` // when a person removed what was kept

	Recent []time.Time `json:"recent_sign_ins,omitzero"` // the last of them, at most maxSignIns
	Failed int         `json:"failed_sign_ins,omitzero"` // in a row, up to the last
	Retry  time.Time   `json:"retry,omitzero"`           // after one that failed: no sign-in by itself before
}

// openCall is a call that was about to be made: it is written down before, so
// that a process which is killed in it cannot leave its successor without a
// word.
type openCall struct {
	Kind callKind  `json:"kind"`
	At   time.Time `json:"at"`
	Of   string    `json:"of,omitzero"` // the grant to be replaced

	Words string `json:"words,omitzero"` // what came instead of the answer, if anything is known
}

// refusal is what the server has said last.
type refusal struct {
	Kind  callKind  `json:"kind"`
	At    time.Time `json:"at"`
	Of    string    `json:"of,omitzero"`
	Words string    `json:"words"`
	Lost  time.Time `json:"lost,omitzero"` // when an earlier answer was lost
}

// callKind is what a call of a credential is for.
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
		return n, fmt.Errorf("read note of credential: version %d is not of this release", n.Version)
	}
	return n, nil
}

// unquoted keeps a JSON error from quoting what it has met.
func unquoted(err error) error {
	if s, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // as Unmarshal returns it
		return fmt.Errorf("not JSON at byte %d", s.Offset)
	}
	return fmt.Errorf("not what penstock has written")
}

// maxSignIns is how many sign-ins the processes that share a credential make within
// signInWindow by themselves. A sign-in ends every other token of its user: two places
// that sign in as the same user, again and again, shut each other out.
const (
	maxSignIns   = 3
	signInWindow = time.Hour
)

// refusedPause is how long there is no other sign-in by itself after the n-th in a row
// that was refused.
func refusedPause(n int) time.Duration { return backoff(time.Hour, 24*time.Hour, n) }

// lostPause is the same after one that was not answered, which may pass.
func lostPause(n int) time.Duration { return backoff(time.Minute, 24*time.Hour, n) }

// nextSignIn is when penstock may sign in by itself: now, or later. Times that are
// further ahead than any could be are a clock's mistake, and do not count.
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

// signingIn notes a sign-in that is about to be made.
func (n note) signingIn(now time.Time) note {
	n.Recent = append(slices.Clone(n.Recent), now)
	n.Recent = n.Recent[max(0, len(n.Recent)-maxSignIns):]
	n.Call = &openCall{Kind: signInCall, At: now}
	return n
}

// failedSignIn notes that a sign-in brought no token.
func (n note) failedSignIn(now time.Time, pause func(int) time.Duration) note {
	n.Failed++
	n.Retry = now.Add(pause(n.Failed))
	return n
}

// refreshing notes a refresh that is about to be made. Of several whose answers
// were lost the first is remembered: it is the one that may have counted.
func (n note) refreshing(now time.Time, g grant) note {
	if !n.open(g) {
		n.Call = &openCall{Kind: refreshCall, At: now, Of: g.id}
	}
	return n
}

// open reports whether the outcome of a refresh of this grant is not known.
func (n note) open(g grant) bool {
	return n.Call != nil && n.Call.Kind == refreshCall && n.Call.Of == g.id
}

// dead reports whether the server has refused to renew this grant.
func (n note) dead(g grant) bool {
	return n.Refused != nil && n.Refused.Kind == refreshCall && n.Refused.Of == g.id
}

// failing is since when calls that were to bring a new token have brought none; zero
// where the last one did.
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
