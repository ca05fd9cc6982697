package extract

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// signals are what an answer states about the pages of its list. A number is -1 if the answer does not state it.
type signals struct {
	total     int64
	lastPage  int64
	page      int64 // number of this page, as the server states it
	offset    int64
	limit     int64 // records per page, as the server states it
	remaining int64

	more    tristate
	linked  bool // the answer has a member for the next link, possibly null
	next    url.Values
	opaque  bool // the answer has a next link without parameters
	tokened bool // the answer has a member for the next token, possibly null
	token   string
	tokenAt string // pointer of a token from unread; otherwise ""
	ranged  bool   // the token is the value of a Range header

	bound     string // a total that is only a lower bound, as text; "" for none
	rangeUnit string // unit of Content-Range or Accept-Ranges, if it counts records

	tokenName, pageName, offsetName, sizeName named // names of these values in the answer

	unread     []unread
	skipped    bool // there were too many unread signals
	incomplete []string
}

var noSignals = signals{total: -1, lastPage: -1, page: -1, offset: -1, limit: -1, remaining: -1}

// Limits for the data beside the records, which may have any size. A token of a request has at most maxUnreadBytes.
// // Invariant 6
const (
	maxUnread      = 1000
	maxUnreadBytes = 64 << 10
	maxDoubted     = 10_000
)

func (s *signals) addUnread(u unread) {
	if s.skipped = s.skipped || len(s.unread) >= maxUnread; s.skipped {
		return
	}
	if len(u.value) > maxUnreadBytes {
		u.value, u.name = schemas.Indexed(u.value), named{}
	}
	s.unread = append(s.unread, u)
}

func (s *signals) addIncomplete(statement string) {
	if len(s.incomplete) < maxStatements {
		s.incomplete = append(s.incomplete, statement)
	}
}

type named struct{ in, name string }

type unread struct {
	pointer string
	value   string
	number  int64 // -1 for text
	name    named // set if the text may be a token
}

// String returns the signal in the form of the certificate: "/meta/rest: 63".
func (u unread) String() string { return u.pointer + ": " + short(u.value) }

type tristate int8

const (
	unstated tristate = iota
	yes
	no
)

func signalsOf(a *answer, f records.Found, n int) signals {
	s := noSignals
	r := signalReader{words: schemas.Paging(), d: a.d, n: n, s: &s, skip: map[int]bool{}}
	for _, v := range f.Above {
		r.skip[v.Start] = true
	}
	for _, p := range f.Places {
		if p.Form == records.FormEntries {
			r.entries = p.Value
			continue
		}
		r.skip[p.Value.Start] = true
		r.skip[p.In.Object.Start] = r.skip[p.In.Object.Start] || p.In.Object.OK()
	}
	tokens := strings.Split(f.Pointer, "/")
	for i, v := range f.Above {
		r.object(v, strings.Join(tokens[:i+1], "/"), scope{trusted: true, name: lastName(tokens[:i+1]), top: true})
	}
	if a.resp != nil {
		r.header(a.resp.Header)
		if a.resp.Status == statusPartial && !s.ranged && a.resp.Header.Get("Content-Range") == "" {
			s.addIncomplete("status 206")
		}
	}
	s.settle()
	return s
}

const statusPartial = 206

func lastName(tokens []string) string { return jsondoc.Unescape(tokens[len(tokens)-1]) }

// settle derives signals from others. If unread signals were dropped, it adds one larger than any number of records
// in their place. A text would not do: texts that are the same on every page are ignored.
func (s *signals) settle() {
	if s.remaining > 0 && s.more == unstated {
		s.more = yes
	}
	if s.skipped {
		s.unread = append(s.unread, unread{pointer: "beside the records", value: "not all read", number: math.MaxInt64})
	}
}

// adoptToken takes an unread text as the token of the next page: "x" in {"additional": {"next_cursor": "x"}}. A text
// that is the same on every page is no token, unless it is the token of this page.
func (s *signals) adoptToken(at position, constant map[string]bool) {
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

func (s *signals) doubts(rows int64) []unread {
	return slices.DeleteFunc(slices.Clone(s.unread), func(u unread) bool { return u.number >= 0 && u.number <= rows })
}

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
		return "a flag for more"
	}
	return ""
}
