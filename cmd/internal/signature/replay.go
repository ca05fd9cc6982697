package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signsEventID reports whether the event's id is signed: on its own, or within the
// body, which every scheme signs. Anybody who has seen a delivery can send it again
// with another id that is not signed.
func (s Scheme) signsEventID() bool {
	if s.EventID.nowhere() {
		return false
	}
	if _, body := s.EventID.pointer(); body || uses(s.Content, ID) {
		return true
	}
	name, header := s.EventID.header()
	return header && slices.ContainsFunc(s.Content, func(t Token) bool {
		return t.Kind == HeaderOf && strings.EqualFold(t.Text, name)
	})
}

// bodyIdentity tells a delivery apart whose id is not signed: by its body and the
// time that was signed with it. What is sent again within the window is the same
// delivery; the window refuses it later.
func bodyIdentity(body []byte, at time.Time) string {
	sum := sha256.Sum256(body)
	return "body:" + hex.EncodeToString(sum[:16]) + ":" + strconv.FormatInt(at.UnixMilli(), 10)
}

// Replays says what protects against a delivery that is sent again, for people.
func (s Scheme) Replays() string {
	s = s.filled()
	timed, signed := !s.Timestamp.From.nowhere(), s.signsEventID()
	unsigned := ""
	if !signed && !s.EventID.nowhere() {
		unsigned = fmt.Sprintf("; the id in %s is not signed and is not used", s.EventID)
	}
	switch {
	case timed && signed:
		return fmt.Sprintf("a delivery that is sent again is known by its id (%s), and refused after %s", s.EventID, s.Timestamp.Past)
	case signed:
		return fmt.Sprintf("a delivery that is sent again is known by its id (%s) for 90 days; no time is signed", s.EventID)
	case timed:
		return fmt.Sprintf("a delivery that is sent again is known by its body and signed time, and refused after %s%s", s.Timestamp.Past, unsigned)
	}
	return "nothing protects against a delivery that is sent again: neither an id nor a time is signed" + unsigned + ". Each has its record read again at the source, no more"
}
