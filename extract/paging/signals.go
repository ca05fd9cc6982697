package paging

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// Signals are what an answer states about the pages of its list. A number is -1 if the answer does not state it.
type Signals struct {
	Total     int64
	LastPage  int64
	Page      int64 // number of this page, as the server states it
	offset    int64
	Limit     int64 // records per page, as the server states it
	Remaining int64
	records   int // records of the page

	More    tristate
	Linked  bool // the answer has a member for the next link, possibly null
	Next    url.Values
	opaque  bool // the next link has no parameters
	Tokened bool // the answer has a member for the next token, possibly null
	Token   string
	tokenAt string // JSON pointer of a token that AdoptToken took from Unread; otherwise ""
	ranged  bool   // the token is the value of a Range header

	Bound     string // a total that is only a lower bound, as text; "" for none
	rangeUnit string // unit of Content-Range or Accept-Ranges, if it counts records

	tokenName, pageName, offsetName, sizeName named // names of these values in the answer

	Unread     []Unread
	skipped    bool // there were too many unread signals
	Incomplete []string
}

var NoSignals = Signals{Total: -1, LastPage: -1, Page: -1, offset: -1, Limit: -1, Remaining: -1}

// Limits for the data beside the records. An answer may have any amount of it. A token in a request has at most
// maxUnreadBytes. // Invariant 6
const (
	maxUnread      = 1000
	maxUnreadBytes = 64 << 10
	maxDoubted     = 10_000
	MaxStatements  = 5
)

func (s *Signals) addUnread(u Unread) {
	if s.skipped = s.skipped || len(s.Unread) >= maxUnread; s.skipped {
		return
	}
	if len(u.Value) > maxUnreadBytes {
		u.Value, u.name = schemas.Indexed(u.Value), named{}
	}
	s.Unread = append(s.Unread, u)
}

func (s *Signals) addIncomplete(statement string) {
	if len(s.Incomplete) < MaxStatements {
		s.Incomplete = append(s.Incomplete, statement)
	}
}

type named struct{ in, name string }

// Unread is a member without a known meaning that may announce more records.
type Unread struct {
	Pointer string
	Value   string
	Number  int64 // -1 for text
	name    named // set if the text may be a token
}

// String returns the signal in the form of the certificate: "/meta/rest: 63".
func (u Unread) String() string { return u.Pointer + ": " + Short(u.Value) }

type tristate int8

const (
	unstated tristate = iota
	Yes
	No
)

// AdoptToken takes an unread text as the token of the next page, such as "x" in {"additional": {"next_cursor": "x"}}. A
// text that is the same on every page is not a token, unless this page was requested with it.
func (s *Signals) AdoptToken(at Position, constant map[string]bool) {
	if s.Tokened || s.Linked || s.More == No {
		return
	}
	i := slices.IndexFunc(s.Unread, func(u Unread) bool { return u.name.name != "" && (u.Value == at.At || !constant[u.Pointer+u.Value]) })
	if i < 0 {
		return
	}
	u := s.Unread[i]
	s.Tokened, s.Token, s.tokenName, s.tokenAt = true, u.Value, u.name, u.Pointer
	s.Unread = slices.Delete(slices.Clone(s.Unread), i, i+1)
}

// Doubts returns the unread signals. It leaves out numbers that are not larger than the number of rows, because they
// may count the records that were read.
func (s *Signals) Doubts(rows int64) []Unread {
	return slices.DeleteFunc(slices.Clone(s.Unread), func(u Unread) bool { return u.Number >= 0 && u.Number <= rows })
}

func (s *Signals) describe() string {
	switch {
	case len(s.Unread) > 0:
		return s.Unread[0].String()
	case s.tokenAt != "":
		return Unread{Pointer: s.tokenAt, Value: s.Token}.String()
	case s.Token != "":
		return fmt.Sprintf("%s: %s", s.tokenName.name, Short(s.Token))
	case s.Next != nil || s.opaque:
		return "a next link"
	case s.Total >= 0:
		return fmt.Sprintf("a total of %d", s.Total)
	case s.LastPage > 1:
		return fmt.Sprintf("%d pages", s.LastPage)
	case s.More == Yes:
		return "a flag for more"
	}
	return ""
}

// AnnouncesMore reports whether the answer states that there are more records.
func (s *Signals) AnnouncesMore() bool {
	return s.More == Yes || s.Token != "" || s.Next != nil || s.Remaining > 0
}

// Short shortens a value for a message.
func Short(v string) string {
	if len(v) > 16 {
		return v[:12] + "…"
	}
	return v
}
