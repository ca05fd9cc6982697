package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state/plainerror"
)

// signsEventID reports whether the id is signed. If it is not, anyone who has seen a delivery can replay it with
// another id.
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

// bodyIdentity returns an id that is made from the body and the signed time. A replay has the same id, so it is
// recognized. After the time window, the replay is refused because of its time.
func bodyIdentity(body []byte, at time.Time) string {
	sum := sha256.Sum256(body)
	return "body:" + hex.EncodeToString(sum[:16]) + ":" + strconv.FormatInt(at.UnixMilli(), 10)
}

// Replays says, for a person, what protects against replayed deliveries.
func (s Scheme) Replays() string {
	s = s.filled()
	timed, signed := !s.Timestamp.From.nowhere(), s.signsEventID()
	unsigned := ""
	if !signed && !s.EventID.nowhere() {
		unsigned = fmt.Sprintf("; the id in %s is not signed and is not used", s.EventID)
	}
	switch {
	case timed && signed:
		return fmt.Sprintf("replayed deliveries are recognized by their id (%s), and refused after %s", s.EventID, plainerror.Duration(s.Timestamp.Past))
	case signed:
		return fmt.Sprintf("replayed deliveries are recognized by their id (%s) for 90 days; no time is signed", s.EventID)
	case timed:
		return fmt.Sprintf("replayed deliveries are recognized by their body and signed time, and refused after %s%s", plainerror.Duration(s.Timestamp.Past), unsigned)
	}
	return "nothing protects against replayed deliveries: neither an id nor a time is signed" + unsigned + ". A replay only causes the event's record to be read from the source again"
}
