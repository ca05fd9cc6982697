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

// signsEventID reports whether the id is signed. Anyone who has seen a delivery can replay it with another id if the id is not signed.
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

// bodyIdentity gives a replay within the time window the same id. A later replay is refused because of its time.
func bodyIdentity(body []byte, at time.Time) string {
	sum := sha256.Sum256(body)
	return "body:" + hex.EncodeToString(sum[:16]) + ":" + strconv.FormatInt(at.UnixMilli(), 10)
}

// Replays describes, for people, what protects against replayed deliveries.
func (s Scheme) Replays() string {
	s = s.filled()
	timed, signed := !s.Timestamp.From.nowhere(), s.signsEventID()
	unsigned := ""
	if !signed && !s.EventID.nowhere() {
		unsigned = fmt.Sprintf("; the id in %s is not signed and is not used", s.EventID)
	}
	switch {
	case timed && signed:
		return fmt.Sprintf("replayed deliveries are recognized by their id (%s), and refused after %s", s.EventID, s.Timestamp.Past)
	case signed:
		return fmt.Sprintf("replayed deliveries are recognized by their id (%s) for 90 days; no time is signed", s.EventID)
	case timed:
		return fmt.Sprintf("replayed deliveries are recognized by their body and signed time, and refused after %s%s", s.Timestamp.Past, unsigned)
	}
	return "nothing protects against replayed deliveries: neither an id nor a time is signed" + unsigned + ". A replay only causes its record to be read from the source again"
}
