package extract

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// signals are what an answer states about the pages of its list. A number that it does
// not state is -1, a text "".
type signals struct {
	total     int64 // records in all
	lastPage  int64
	page      int64 // which page this is, as the server sees it
	offset    int64
	limit     int64 // records to a page, as the server sees it
	remaining int64 // records after this page

	more    tristate
	linked  bool // there is a member for the next link, which may be null
	next    url.Values
	opaque  bool // there is a next link, and it has no parameter
	tokened bool // there is a member for the next token, which may be null
	token   string
	tokenAt string // where a token stands that nothing explains; "" for any other
	ranged  bool   // the token is the value of a Range header

	bound     string // a total that is only a lower bound; "" for none
	rangeUnit string // of Content-Range or Accept-Ranges, if it counts records

	tokenName, pageName, offsetName, sizeName named // as the answer calls them

	unread     []unread // signals that nothing explains
	skipped    bool     // there may be more of them
	incomplete []string // statements that the answer lacks records
}

// noSignals are those of an answer that states nothing.
var noSignals = signals{total: -1, lastPage: -1, page: -1, offset: -1, limit: -1, remaining: -1}

// What an answer says beside its records may be of any size. So many unread signals are
// kept, with values of so many bytes: no request carries a longer token. So many members
// are looked at. // Invariant 6
const (
	maxUnread      = 1000
	maxUnreadBytes = 64 << 10
	maxDoubted     = 10_000
)

// doubtful keeps an unread signal.
func (s *signals) doubtful(u unread) {
	if s.skipped = s.skipped || len(s.unread) >= maxUnread; s.skipped {
		return
	}
	if len(u.value) > maxUnreadBytes {
		u.value, u.name = schemas.Indexed(u.value), named{}
	}
	s.unread = append(s.unread, u)
}

// lacks keeps a statement that the answer lacks records.
func (s *signals) lacks(statement string) {
	if len(s.incomplete) < maxStatements {
		s.incomplete = append(s.incomplete, statement)
	}
}

// named is a member's name and that of the object it is in, "" at the top.
type named struct{ in, name string }

// unread is a signal without a role that may mean there are more records.
type unread struct {
	pointer string
	value   string
	number  int64 // -1 for a text
	name    named // of a text that may be a token of the next page
}

// String is the signal as a certificate names it: "/meta/rest: 63".
func (u unread) String() string { return u.pointer + ": " + short(u.value) }

type tristate int8

const (
	unsaid tristate = iota
	yes
	no
)

// signalsOf reads the members above and beside the n records of an answer, and its
// headers.
func signalsOf(a *answer, f found, n int) signals {
	s := noSignals
	r := signalReader{words: schemas.Paging(), d: a.d, n: n, s: &s, skip: map[int]bool{}}
	for _, v := range f.above {
		r.skip[v.start] = true
	}
	for _, p := range f.places {
		r.skip[p.value.start] = true
		r.skip[p.in.object.start] = r.skip[p.in.object.start] || p.in.object.ok()
	}
	tokens := strings.Split(f.pointer, "/")
	for i, v := range f.above {
		r.object(v, strings.Join(tokens[:i+1], "/"), scope{trusted: true, name: lastName(tokens[:i+1]), top: true})
	}
	if a.resp != nil {
		r.header(a.resp.Header)
		if a.resp.Status == statusPartial && !s.ranged && a.resp.Header.Get("Content-Range") == "" {
			s.lacks("status 206")
		}
	}
	s.settle()
	return s
}

const statusPartial = 206

func lastName(tokens []string) string { return unescape(tokens[len(tokens)-1]) }

// settle derives signals from others. Members that were skipped may say that there are more
// records. As they may differ on each page, their signal has a number, which no list reaches.
func (s *signals) settle() {
	if s.remaining > 0 && s.more == unsaid {
		s.more = yes
	}
	if s.skipped {
		s.unread = append(s.unread, unread{pointer: "beside the records", value: "not all read", number: math.MaxInt64})
	}
}

// distant takes a text that nothing explains for the token of the next page, where
// the answer has no other: {"additional": {"next_cursor": "x"}}. Those that are the same
// on every page are none, but for the one that has led to this page.
func (s *signals) distant(at position, constant map[string]bool) {
	if s.tokened || s.linked || s.more == no {
		return
	}
	i := slices.IndexFunc(s.unread, func(u unread) bool { return u.name.name != "" && (u.value == at.at || !constant[u.pointer+u.value]) })
	if i < 0 {
		return
	}
	u := s.unread[i]
	s.tokened, s.token, s.tokenName, s.tokenAt = true, u.value, u.name, u.pointer
	s.unread = slices.Delete(slices.Clone(s.unread), i, i+1)
}

// doubts are the unread signals that may mean there are more than rows records.
func (s *signals) doubts(rows int64) []unread {
	return slices.DeleteFunc(slices.Clone(s.unread), func(u unread) bool { return u.number >= 0 && u.number <= rows })
}

// describe names the signal that says that there are more records.
func (s *signals) describe() string {
	switch {
	case len(s.unread) > 0:
		return s.unread[0].String()
	case s.tokenAt != "":
		return unread{pointer: s.tokenAt, value: s.token}.String()
	case s.token != "":
		return fmt.Sprintf("%s: %s", s.tokenName.name, short(s.token))
	case s.next != nil || s.opaque:
		return "a next link"
	case s.total >= 0:
		return fmt.Sprintf("a total of %d", s.total)
	case s.lastPage > 1:
		return fmt.Sprintf("%d pages", s.lastPage)
	case s.more == yes:
		return "it says so"
	}
	return ""
}
