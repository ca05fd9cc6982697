package servers

// Named is a list with a name: one way of paging, or one fault.
type Named struct {
	Name  string `json:"name"`
	About string `json:"about"`
	Spec  Spec   `json:"spec"`
}

func defaultSpec() Spec {
	return Spec{
		Records:  Records{Count: 45, Key: "id", Times: true, Names: true},
		Envelope: Envelope{Path: []string{"data"}},
		Paging:   Paging{Kind: KindPage, Param: "page", Base: 1},
		Size:     Size{Param: "per_page", Default: 10, Max: 50},
	}
}

// Lists returns the named lists. The ways of paging come first.
func Lists() []Named {
	all := make([]Named, 0, len(named))
	for _, n := range named {
		s := defaultSpec()
		n.change(&s)
		all = append(all, Named{n.name, n.about, s})
	}
	return all
}

func (s *Spec) addSignals(all ...Signal) { s.Signals = append(s.Signals, all...) }

func (s *Spec) setPaging(kind, param string) { s.Paging = Paging{Kind: kind, Param: param} }

func (s *Spec) setPath(path ...string) { s.Envelope.Path = path }

func (s *Spec) addFault(f Fault) {
	f.Run = 2
	s.Faults = append(s.Faults, f)
}

var (
	total = Signal{At: "/total", Says: "total"}
	more  = Signal{At: "/has_more", Says: "more"}
	next  = Signal{At: "/next_cursor", Says: "next"}
)

var named = []struct {
	name, about string
	change      func(*Spec)
}{
	{"page", "page numbers, without other signals", func(*Spec) {}},
	{"page_from_0", "page numbers that begin at 0, with a total", func(s *Spec) { s.Paging.Base = 0; s.addSignals(total) }},
	{"page_total", "page numbers, with the page, the last page and the total under meta", func(s *Spec) {
		s.addSignals(Signal{At: "/meta/current_page", Says: "page"}, Signal{At: "/meta/last_page", Says: "pages"}, Signal{At: "/meta/total", Says: "total"})
	}},
	{"offset", "offset and limit, with a total", func(s *Spec) { s.setPaging(KindOffset, "offset"); s.Size.Param = "limit"; s.addSignals(total) }},
	{"offset_from_1", "startIndex that begins at 1, with totalResults", func(s *Spec) {
		s.setPaging(KindOffset, "startIndex")
		s.Paging.Base, s.Size.Param = 1, "count"
		s.addSignals(Signal{At: "/totalResults", Says: "total"})
	}},
	{"skip_top", "$skip and $top, with @odata.nextLink", func(s *Spec) {
		s.setPaging(KindOffset, "$skip")
		s.setPath("value")
		s.Size.Param = "$top"
		s.addSignals(Signal{At: "/@odata.nextLink", Says: "next url", End: "absent"})
	}},
	{"cursor", "a cursor in the body", func(s *Spec) { s.setPaging(KindToken, "cursor"); s.addSignals(next) }},
	{"cursor_header", "a cursor in a header", func(s *Spec) {
		s.setPaging(KindToken, "cursor")
		s.setPath()
		s.addSignals(Signal{At: "header X-Next-Cursor", Says: "next", End: "absent"})
	}},
	{"cursor_post", "a cursor that the client sends in the body of a POST", func(s *Spec) { s.Method = "POST"; s.setPaging(KindToken, "cursor"); s.addSignals(next, more) }},
	{"marker", "is_truncated with next_marker", func(s *Spec) {
		s.setPaging(KindToken, "marker")
		s.addSignals(Signal{At: "/is_truncated", Says: "more"}, Signal{At: "/next_marker", Says: "next", End: "absent"})
	}},
	{"continue", "metadata.continue", func(s *Spec) {
		s.setPaging(KindToken, "continue")
		s.setPath("items")
		s.addSignals(Signal{At: "/metadata/continue", Says: "next", End: "empty"})
	}},
	{"keyset", "starting_after the last id, with has_more", func(s *Spec) { s.setPaging(KindKeyset, "starting_after"); s.Size.Param = "limit"; s.addSignals(more) }},
	{"moments", "records created before a moment, the newest first", func(s *Spec) {
		s.setPaging(KindMoment, "before")
		s.Records.Order = OrderNewest
		s.addSignals(more)
	}},
	{"link", "the next link in the body", func(s *Spec) { s.addSignals(Signal{At: "/next", Says: "next url"}) }},
	{"link_relative", "the next link without a host", func(s *Spec) { s.addSignals(Signal{At: "/links/next", Says: "next url", Host: "relative"}) }},
	{"link_inner", "a next link with an unreachable host", func(s *Spec) { s.addSignals(Signal{At: "/next_page_url", Says: "next url", Host: "inner"}) }},
	{"link_header", "the header Link on a bare list", func(s *Spec) { s.setPath(); s.addSignals(Signal{At: "header Link", Says: "next header"}) }},
	{"link_array", "links: [{rel: next, href}]", func(s *Spec) { s.setPaging(KindToken, "token"); s.addSignals(Signal{At: "/links", Says: "next links"}) }},
	{"hal", "HAL: _embedded and _links.next.href", func(s *Spec) {
		s.setPath("_embedded", "customers")
		s.addSignals(Signal{At: "/_links/next", Says: "next object", End: "absent"})
	}},
	{"json_api", "JSON:API: page[number], attributes, links.next", func(s *Spec) {
		s.setPaging(KindPage, "page[number]")
		s.Paging.Base, s.Size.Param, s.Records.Form = 1, "page[size]", FormAttributes
		s.addSignals(Signal{At: "/links/next", Says: "next url"}, Signal{At: "/meta/page/total", Says: "total"})
	}},
	{"hydra", "Hydra: hydra:member and hydra:view", func(s *Spec) {
		s.setPath("hydra:member")
		s.addSignals(Signal{At: "/hydra:view/hydra:next", Says: "next url", End: "absent"}, Signal{At: "/hydra:totalItems", Says: "total"})
	}},
	{"range", "the headers Range and Content-Range, with status 206", func(s *Spec) {
		s.setPath()
		s.setPaging(KindRange, "Range")
		s.Paging.In, s.Size.Param = "header", ""
		s.addSignals(Signal{At: "header Content-Range", Says: "range"})
	}},
	{"whole", "all records in one answer to any request", func(s *Spec) { s.setPaging(KindWhole, ""); s.Size.Param = "" }},

	{"cut", "10 of 45 records; the others cannot be reached", func(s *Spec) { s.setPaging(KindCap, ""); s.Size.Param = "" }},
	{"cut_total", "10 of 45 records, with the total under a Spanish name", func(s *Spec) {
		s.setPaging(KindCap, "")
		s.Size.Param = ""
		s.addSignals(Signal{At: "/resumen/cantidad", Says: "total"})
	}},
	{"total_of_page", "a total that counts only the page", func(s *Spec) { s.addSignals(Signal{At: "/total", Says: "total here"}) }},
	{"total_estimated", "a total that is rounded up", func(s *Spec) { s.addSignals(Signal{At: "/total", Says: "total rounded"}) }},
	{"total_text", "a total in quotes", func(s *Spec) { s.addSignals(Signal{At: "/total", Says: "total", As: "text"}) }},
	{"more_yesno", "Y or N: whether more pages follow", func(s *Spec) { s.addSignals(Signal{At: "/more", Says: "more", As: "yesno"}) }},
	{"page_stuck", "a current_page that is 1 on every page", func(s *Spec) { s.addSignals(Signal{At: "/current_page", Says: "page stuck"}) }},
	{"cursor_self", "a last cursor that points to its own page", func(s *Spec) {
		s.setPaging(KindToken, "cursor")
		s.addSignals(Signal{At: "/next_cursor", Says: "next", End: "self"})
	}},
	{"cursor_zero", "a last cursor that is \"0\"", func(s *Spec) {
		s.setPaging(KindToken, "cursor")
		s.addSignals(Signal{At: "/next_cursor", Says: "next", End: "zero"})
	}},
	{"cursor_false", "a last cursor that is false", func(s *Spec) {
		s.setPaging(KindToken, "cursor")
		s.addSignals(Signal{At: "/next_cursor", Says: "next", End: "false"})
	}},
	{"beyond_last", "pages beyond the end repeat the last page", func(s *Spec) { s.Paging.Beyond = BeyondLast }},
	{"beyond_first", "pages beyond the end repeat the first page", func(s *Spec) { s.Paging.Beyond = BeyondFirst }},
	{"beyond_404", "pages beyond the end answer 404", func(s *Spec) { s.Paging.Beyond = Beyond404 }},
	{"beyond_204", "pages beyond the end answer 204 without a body", func(s *Spec) { s.Paging.Beyond = Beyond204 }},
	{"unknown_400", "unknown parameters are refused", func(s *Spec) { s.Unknown = UnknownRefuse; s.addSignals(total) }},
	{"unknown_filter", "unknown parameters are filters that match no record", func(s *Spec) {
		s.Unknown = UnknownFilter
		s.setPaging(KindToken, "cursor")
		s.setPath()
		s.addSignals(Signal{At: "header X-Next-Cursor", Says: "next", End: "absent"})
	}},
	{"uneven", "25 records, from the middle of page 2 on, are not shown: pages are short or empty", func(s *Spec) { s.Records.Count, s.Records.Hidden = 85, 25; s.Size.Param = "" }},

	{"partial", "every third record is missing, with partial: true", func(s *Spec) { s.addFault(Fault{Kind: FaultPartial, At: "/partial", Value: raw(`true`)}) }},
	{"timed_out", "every third record is missing, with timed_out: true", func(s *Spec) { s.addFault(Fault{Kind: FaultPartial, At: "/timed_out", Value: raw(`true`)}) }},
	{"errors", "every third record is missing, with errors next to the data", func(s *Spec) {
		s.addFault(Fault{Kind: FaultPartial, At: "/errors", Value: raw(`[{"message":"shard 3 did not answer"}]`)})
	}},
	{"status_206", "every third record is missing, with status 206", func(s *Spec) { s.addFault(Fault{Kind: FaultPartial, Status: 206}) }},
	{"object", "an object with a message in place of the list", func(s *Spec) { s.addFault(Fault{Kind: FaultObject}) }},
	{"moved", "the list is in another member", func(s *Spec) { s.addFault(Fault{Kind: FaultMoved}) }},
	{"emptied", "an empty list with the old total", func(s *Spec) { s.addSignals(total); s.addFault(Fault{Kind: FaultEmptied}) }},
	{"half", "half of the second page is missing, with the old total", func(s *Spec) { s.addSignals(total); s.addFault(Fault{Kind: FaultHalf, Row: 12}) }},
	{"page_500", "the page with record 23 always fails", func(s *Spec) { s.addFault(Fault{Kind: FaultStatus, Row: 23}); s.Size.Param = "" }},
	{"page_429", "one page asks to slow down, once", func(s *Spec) { s.addFault(Fault{Kind: FaultStatus, Row: 23, Status: 429, Count: 1}) }},
	{"moves", "records are deleted at the head of the list while it is read", func(s *Spec) {
		s.Size.Param = ""
		s.Moves = []Move{{Run: 1, At: 14, Kind: MoveDeleteFirst, Count: 2}, {Run: 2, At: 3, Kind: MoveDeleteFirst, Count: 2}}
	}},

	{"same_key", "three pairs of records with the same id", func(s *Spec) { s.Records.Twice = 3; s.addSignals(total) }},
	{"no_key", "records without an id", func(s *Spec) { s.Records.Key = ""; s.addSignals(total) }},
	{"key_ID", "records whose id is spelled ID", func(s *Spec) { s.Records.Key = "ID"; s.addSignals(total) }},
	{"keyed", "an object instead of a list: its member names are the ids of the records", func(s *Spec) { s.Records.Form = FormKeyed; s.addSignals(total) }},
	{"member_twice", "an object instead of a list, with one member name twice", func(s *Spec) { s.Records.Form, s.Records.Twice = FormKeyed, 1; s.setPaging(KindWhole, "") }},
	{"nulls", "null elements between the records", func(s *Spec) { s.Records.Nulls = 2; s.addSignals(total) }},
	{"half_surrogate", "a text with half of a surrogate pair", func(s *Spec) { s.Records.Odd = OddSurrogate; s.addSignals(total) }},
	{"raw_tab", "a text with a raw tab", func(s *Spec) { s.Records.Odd = OddTab; s.addSignals(total) }},
	{"deep", "201 nested arrays", func(s *Spec) { s.Records.Odd = OddDeep; s.addSignals(total) }},
}
