// Package signature verifies the signatures of webhook deliveries, and finds out how a sender signs.
//
// A [Scheme] says which header has the signature, how to parse the header, what is signed, and with which
// algorithm. [Compile] returns a [Verifier] for one or more schemes and their [Key]s. [Verifier.Verify] checks
// one delivery. [Learn] finds the scheme of captured deliveries. The package does no input or output and stores
// nothing.
package signature

import (
	"sync"
	"time"
)

// Delivery is a request as it was received.
type Delivery struct {
	Method string
	Path   string              // as sent, with its escapes
	Query  string              // as sent, without the question mark
	Header map[string][]string // by canonical names, as in net/http
	Body   []byte              // the raw bytes; they are not changed
}

// Verdict describes a delivery whose signature is valid.
type Verdict struct {
	Scheme      string    // name of the scheme that matched
	SecretLabel string    // label of the key that matched
	EventID     string    // identifies the delivery: the signed id, or else a hash of the body with the signed time; "" if neither an id nor a time is signed
	Time        time.Time // the signed time; zero if no time is signed
}

// Reason says why a delivery was refused. It is for metrics and operators. A sender gets the same response for
// every reason.
type Reason string

// The reasons, in the order of the checks. A delivery with a later reason has passed more checks.
const (
	Missing    Reason = "missing"    // no signature header, or an empty one
	Malformed  Reason = "malformed"  // the signature header, or a signed header, cannot be parsed
	Incomplete Reason = "incomplete" // a part that the scheme signs is missing
	Mismatch   Reason = "mismatch"   // no key made this signature over this content
	Expired    Reason = "expired"    // only an expired key made this signature
	Old        Reason = "old"        // the signature is valid, but its time is too old or cannot be parsed
	Early      Reason = "early"      // the signature is valid, but its time is in the future
)

// Reasons returns all reasons in order.
func Reasons() []Reason {
	return []Reason{Missing, Malformed, Incomplete, Mismatch, Expired, Old, Early}
}

// Error describes the reason.
func (r Reason) Error() string {
	return map[Reason]string{
		Missing:    "no signature",
		Malformed:  "signature header is malformed",
		Incomplete: "a signed part is missing",
		Mismatch:   "signature does not match",
		Expired:    "signed with a secret that has expired",
		Old:        "timestamp is too old",
		Early:      "timestamp is in the future",
	}[r]
}

func (r Reason) rank() int {
	for i, known := range Reasons() {
		if r == known {
			return i
		}
	}
	return -1
}

// Verifier checks deliveries with one or more schemes. It does not change, and is safe for concurrent use.
type Verifier struct {
	schemes []*compiled
	scratch sync.Pool // of *scratch
}

type scratch struct {
	buf      []byte   // memory for small parts of the content, decoded signatures and digests
	segments [][]byte // the parts of the signed content, in order
	sum      []byte   // result of a MAC
}

// Verify checks a delivery that was received at the time now. It tries all schemes in order, and returns the verdict of
// the first scheme that matches. If no scheme matches, the error is the [Reason] of the scheme for which the delivery
// has passed the most checks.
//
// The time that Verify takes depends on the size of the delivery and the form of its header. It does not depend
// on how much of a signature is right, or on which secret made the signature. Verify does not panic, whatever the
// delivery contains.
func (v *Verifier) Verify(now time.Time, d Delivery) (Verdict, error) {
	s := v.scratch.Get().(*scratch)
	defer v.scratch.Put(s)
	var first Verdict
	found, farthest := false, Missing
	for _, c := range v.schemes {
		verdict, reason := c.verify(now, &d, s)
		switch {
		case reason == "" && !found:
			first, found = verdict, true
		case reason != "" && reason.rank() > farthest.rank():
			farthest = reason
		}
	}
	if !found {
		return Verdict{}, farthest
	}
	return first, nil
}
