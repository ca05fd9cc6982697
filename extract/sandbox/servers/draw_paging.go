package servers

import "slices"

var ways = []struct {
	name   string
	weight int
	draw   func(*drawer)
}{
	{KindPage, 6, (*drawer).byPage},
	{KindOffset, 4, (*drawer).byOffset},
	{KindToken, 6, (*drawer).byToken},
	{KindKeyset, 3, (*drawer).byKeyset},
	{KindMoment, 2, (*drawer).byMoment},
	{"link", 6, (*drawer).byLink},
	{KindRange, 1, (*drawer).byRange},
	{KindWhole, 3, (*drawer).whole},
	{KindCap, 1, (*drawer).capped},
}

func (d *drawer) paging() {
	d.Unknown = pick(d, "", "", "", "", UnknownRefuse, UnknownFilter)
	sum := 0
	for _, f := range ways {
		sum += f.weight
	}
	n := d.IntN(sum)
	for _, f := range ways {
		if n -= f.weight; n < 0 {
			f.draw(d)
			return
		}
	}
}

func (d *drawer) beyond() string {
	return pick(d, BeyondEmpty, BeyondEmpty, BeyondEmpty, BeyondLast, BeyondFirst, Beyond204, Beyond400, Beyond404)
}

func (d *drawer) byPage() {
	d.Paging = Paging{Kind: KindPage, Param: d.word("page"), Base: pick(d, 1, 1, 1, 0), Beyond: d.beyond()}
	d.counts()
	if d.chance(3) {
		d.say(Signal{Says: "page"}, "number")
	} else if d.chance(12) {
		d.say(Signal{Says: "page stuck"}, "number")
	}
	if d.chance(3) {
		d.say(Signal{Says: "pages"}, "pages")
	}
	if d.chance(6) {
		d.say(Signal{Says: "next", As: "number", End: d.end()}, "next number")
	}
}

func (d *drawer) byOffset() {
	d.Paging = Paging{Kind: KindOffset, Param: d.word("offset"), Base: pick(d, 0, 0, 0, 1), Beyond: d.beyond()}
	d.counts()
	if d.chance(4) {
		d.say(Signal{Says: "offset"}, "offset shown")
	}
	if d.chance(6) {
		d.say(Signal{Says: "next", As: "number", End: d.end()}, "next offset")
	}
}

func (d *drawer) end() string {
	return pick(d, "", "", "", "absent", "absent", "empty", "false", "zero")
}

func (d *drawer) byToken() {
	d.Paging = Paging{Kind: KindToken, Param: d.word("token"), Form: pick(d, "", "", "id", "offset"), Bad: pick(d, "", "", "first", "empty")}
	if d.Records.Key == "" && d.Paging.Form == "id" || d.Records.Twice > 0 {
		d.Paging.Form = ""
	}
	if d.chance(6) {
		d.Method = "POST"
	}
	d.separateSizeParam()
	if d.chance(2) {
		d.counts()
	}
	end := d.end()
	if d.chance(12) {
		end = "self"
	}
	if d.meta == "header" || d.chance(6) {
		d.sayHeader(Signal{Says: "next", End: pick(d, "absent", "empty")}, "next header")
		return
	}
	for !d.say(Signal{Says: "next", End: end}, "next token") {
	}
}

func (d *drawer) separateSizeParam() {
	if d.Size.Param == d.Paging.Param {
		d.Size.Param = "limit"
	}
}

func (d *drawer) byKeyset() {
	d.Paging = Paging{Kind: KindKeyset, Param: d.word("keyset"), Bad: pick(d, "", "first", "empty")}
	if d.Records.Key == "" || d.Records.Twice > 0 {
		d.Records.Key, d.Records.Twice = "id", 0
	}
	if d.Records.Order == OrderChange {
		d.Records.Order = OrderOldest
	}
	if !d.chance(4) {
		d.more()
	}
	if d.chance(4) {
		d.total()
	}
}

func (d *drawer) byMoment() {
	d.Records.Times, d.Records.Order = true, pick(d, OrderOldest, OrderNewest)
	word := "moment"
	if d.Records.Order == OrderNewest {
		word = "newest"
	}
	d.Paging = Paging{Kind: KindMoment, Param: d.word(word)}
	if d.chance(2) {
		d.more()
	}
	if d.chance(2) {
		d.total()
	}
}

func (d *drawer) byLink() {
	under := pick(d, KindPage, KindOffset, KindToken, KindToken)
	d.Paging = Paging{Kind: under, Param: d.word(under), Beyond: d.beyond()}
	if under == KindToken {
		d.Paging.Beyond = ""
		if d.chance(4) {
			d.Paging.Param = pick(d, "_pt", "ctx", "k", "resume", "from_token")
		}
	} else {
		d.Paging.Base = pick(d, 0, 1)
	}
	d.separateSizeParam()
	if d.chance(3) {
		d.counts()
	}
	s := Signal{Host: pick(d, "", "", "relative", "inner", "query"), End: pick(d, "", "absent", "empty")}
	switch n := d.IntN(6); {
	case d.meta == "header", n == 0:
		s.Says, s.At, s.End = "next header", "header Link", ""
	case n == 1:
		s.Says, s.At, s.End = "next links", d.at("links"), ""
	case n == 2:
		s.Says, s.At, s.End = "next object", "/_links/next", pick(d, "", "absent")
	case n == 3:
		s.Says, s.At = "next url", pick(d, "/links/next", "/@odata.nextLink", "/hydra:view/hydra:next", "/paging/next", "/__next", "/d/__next")
	default:
		s.Says, s.At = "next url", d.at(d.word("next url"))
	}
	if s.At == "" || s.At[0] == '/' && slices.ContainsFunc(d.Signals, func(o Signal) bool { return o.At == s.At }) {
		s.Says, s.At, s.End = "next header", "header Link", ""
	}
	d.Signals = append(d.Signals, s)
}

func (d *drawer) byRange() {
	d.Paging = Paging{Kind: KindRange, Param: "Range", In: "header"}
	d.Size.Param = ""
	d.Signals = append(d.Signals, Signal{At: "header Content-Range", Says: "range"})
	if d.chance(2) {
		d.Signals = append(d.Signals, Signal{At: "header Accept-Ranges", Says: "constant", Value: raw(`"items"`)})
	}
}

func (d *drawer) whole() {
	d.Paging = Paging{Kind: KindWhole}
	d.Size.Param = ""
	if d.chance(2) {
		d.total()
	}
}

func (d *drawer) capped() {
	d.Paging = Paging{Kind: KindCap}
	if d.chance(2) {
		d.Size.Param = ""
	}
	if d.chance(3) {
		d.counts()
	}
}

func (d *drawer) counts() {
	if d.chance(2) {
		d.total()
	}
	if d.chance(3) {
		d.more()
	}
	if d.chance(8) {
		d.say(Signal{Says: "count"}, "count")
	}
	if d.chance(8) {
		d.say(Signal{Says: "size"}, "limit")
	}
	if d.chance(10) {
		d.say(Signal{Says: "remaining"}, "remaining")
	}
}

func (d *drawer) total() {
	says := "total"
	switch d.IntN(16) {
	case 0:
		says = "total here"
	case 1:
		says = "total rounded" // not "total low": a reader may stop when as many records as the total have arrived
	}
	s := Signal{Says: says, As: pick(d, "", "", "", "", "text")}
	switch {
	case d.meta == "header" || d.chance(8):
		d.sayHeader(Signal{Says: says}, "total header")
	case d.chance(10):
		s.At = "/hits/total/value"
		if len(d.Envelope.Path) > 0 && d.Envelope.Path[0] != "hits" {
			s.At = "/summary/total/value"
		}
		d.Signals = append(d.Signals, s)
	case d.chance(8):
		d.say(s, "foreign total")
	default:
		d.say(s, "total")
	}
}

func (d *drawer) more() {
	as := pick(d, "", "", "", "text", "number", "yesno")
	switch {
	case d.meta == "header":
		if d.chance(2) {
			d.sayHeader(Signal{Says: "more", As: "text"}, "more header")
		}
	case d.chance(4):
		d.say(Signal{Says: "last", As: as}, "last")
	default:
		d.say(Signal{Says: "more", As: as}, "more")
	}
}
