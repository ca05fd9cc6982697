// Package signature says whether a delivery was signed by whoever holds the
// secret, and finds out how a sender signs.
//
// A [Scheme] is data: which header carries the signature, how it is taken
// apart, what was signed, with which algorithm. [Compile] makes a [Verifier] of
// one or more schemes and their [Key]s; its Verify judges each delivery.
// [Learn] goes through all schemes that it can think of and picks the only one
// that all captured deliveries bear out. The package reads bytes and gives
// verdicts: it dials nothing, opens nothing and keeps nothing.
package signature

import (
	"sync"
	"time"
)

// Delivery is one request as it was received.
type Delivery struct {
	Method string
	Path   string              // as it was sent, escapes and all
	Query  string              // as it was sent, without the question mark
	Header map[string][]string // by canonical names, as net/http has it
	Body   []byte              // the raw bytes; only read
}

// Verdict is what is known of a delivery whose signature was verified.
type Verdict struct {
	Scheme      string    // that matched, by its name
	SecretLabel string    // of the key that matched
	EventID     string    // what tells the delivery apart: its signed id, or else its body and signed time; "" where neither is signed
	Time        time.Time // that was signed; zero where the scheme signs none
}

// Reason is why a delivery was refused. It is for metrics and the operator;
// senders get one answer whatever the reason. The set is closed.
type Reason string

// The reasons, from the least that a delivery got right to the most.
const (
	Missing    Reason = "missing"    // no signature header, or an empty one
	Malformed  Reason = "malformed"  // the signature header, or one that is signed, is none of the scheme's
	Incomplete Reason = "incomplete" // something that the scheme signs is not there
	Mismatch   Reason = "mismatch"   // no key made this signature over this content
	Expired    Reason = "expired"    // a key did whose time is over
	Old        Reason = "old"        // signed, but too long ago, or its time is none
	Early      Reason = "early"      // signed, but in the future
)

// Reasons are all of them, in their order.
func Reasons() []Reason {
	return []Reason{Missing, Malformed, Incomplete, Mismatch, Expired, Old, Early}
}

// Error is the reason in a sentence.
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

// rank is how far a delivery with this reason came.
func (r Reason) rank() int {
	for i, known := range Reasons() {
		if r == known {
			return i
		}
	}
	return -1
}

// Verifier judges deliveries by one or more schemes. It is safe for concurrent
// use and does not change.
type Verifier struct {
	schemes []*compiled
	scratch sync.Pool // of *scratch
}

// scratch is memory that one verification uses and the next uses again.
type scratch struct {
	buf      []byte   // small parts of the content, decoded signatures, digests
	segments [][]byte // the content, in order
	sum      []byte   // of a MAC
}

// Verify judges a delivery that was received at now. It tries the schemes in
// their order, each to its end, and gives the first match. Otherwise the error
// is a [Reason], of the scheme with which the delivery came farthest.
//
// How long it takes depends on the size of the delivery and on the form of its
// header, never on how much of a signature is right or on which secret made it.
// Bytes of any kind are judged; none makes it panic.
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
