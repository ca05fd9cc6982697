// Package signature verifies the signatures of webhook deliveries, and finds out how a sender signs.
//
// A [Scheme] says which header has the signature, how to parse the header, what was signed, and with which
// algorithm. [Compile] returns a [Verifier] for one or more schemes and their [Key]s. [Verifier.Verify]
// judges one delivery. [Learn] finds the scheme that made the signatures of captured deliveries. The package does
// no input or output and stores nothing.
package signature

import (
	"sync"
	"time"
)

// Delivery is one request as it was received.
type Delivery struct {
	Method string
	Path   string              // as sent, with its escapes
	Query  string              // as sent, without the question mark
	Header map[string][]string // by canonical names, as in net/http
	Body   []byte              // the raw bytes; only read
}

// Verdict describes a delivery whose signature was verified.
type Verdict struct {
	Scheme      string    // name of the scheme that matched
	SecretLabel string    // label of the key that matched
	EventID     string    // identifies the delivery: the signed id, or else a hash of the body and the signed time; "" if neither an id nor a time is signed
	Time        time.Time // the signed time; zero if the scheme signs none
}

// Reason is why a delivery was refused. It is for metrics and the operator. Senders get the same
// response for every reason.
type Reason string

// The reasons, in the order of the checks. A later reason means that the delivery passed more checks.
const (
	Missing    Reason = "missing"    // no signature header, or an empty one
	Malformed  Reason = "malformed"  // the signature header, or a signed header, does not have the scheme's form
	Incomplete Reason = "incomplete" // a part that the scheme signs is missing
	Mismatch   Reason = "mismatch"   // no key made this signature over this content
	Expired    Reason = "expired"    // only an expired key made this signature
	Old        Reason = "old"        // signed, but too long ago, or with an invalid time
	Early      Reason = "early"      // signed, but in the future
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

// Verifier judges deliveries by one or more schemes. It is immutable and safe for concurrent
// use.
type Verifier struct {
	schemes []*compiled
	scratch sync.Pool // of *scratch
}

type scratch struct {
	buf      []byte   // small parts of the content, decoded signatures, digests
	segments [][]byte // the content, in order
	sum      []byte   // result of a MAC
}

// Verify judges a delivery that was received at the time now. It tries all schemes in
// order and returns the verdict of the first that matches. If none matches, the error
// is a [Reason]: that of the scheme for which the delivery passed the most checks.
//
// The time that Verify takes depends on the size of the delivery and the form of its header. It does
// not depend on how much of a signature is right, or on which secret made it. Verify does not panic,
// whatever the delivery contains.
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
