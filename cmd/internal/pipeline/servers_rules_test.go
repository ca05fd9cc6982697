package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

// TestServersNeedEachRule has a server for each rule of proof, and reads it twice: with all rules, and without this
// rule. With all rules, every report is true. Without the rule, at least one of four errors must occur:
//   - A table is reported as complete although it lacks records.
//   - A live row is marked as deleted.
//   - The run refuses a list that it reads with all rules.
//   - The run does not prove a list that it proves with all rules.
func TestServersNeedEachRule(t *testing.T) {
	rules := map[string]bool{}
	for _, n := range neededBy {
		rules[n.rule] = true
	}
	for _, rule := range proof.Rules() {
		require.True(t, rules[rule], "no server shows the purpose of the rule %q", rule)
	}
	for _, n := range neededBy {
		with, without := n.read(t, ""), n.read(t, n.rule)
		fails := ""
		for i, o := range with {
			require.Empty(t, o.Cause, "rule %q: %s", n.rule, o)
			fails += without[i].Cause
			switch {
			case o.claims() && !without[i].claims():
				fails += "a list that is read with the rule is refused without it"
			case o.Report.Verdict == Proven && without[i].Report.Verdict == Consistent:
				fails += "a list that is proven with the rule is not proven without it"
			}
		}
		require.NotEmpty(t, fails, "without the rule %q nothing fails: %s", n.rule, with)
	}
}

func TestDetailsOfRecordsWithoutID(t *testing.T) {
	n := needed{list: func(s *servers.Spec) {
		s.Records.Count, s.Records.Nulls, s.Reader.Details, s.Size.Default = 81, 2, true, 20
		s.Paging = servers.Paging{Kind: servers.KindOffset, Param: "offset"}
		states(s)
	}}
	for _, o := range n.read(t, "") {
		require.Empty(t, o.Cause, "%s", o)
		require.NotEqual(t, Proven, o.Report.Verdict)
	}
}

// fewKeys limits the keys whose records a pass compares in these runs.
const fewKeys = 256

type needed struct {
	rule, about string
	list        func(*servers.Spec) // changes a plain list of 45 records in pages of 10
	runs        int                 // number of runs; 0 means two runs
}

func (n needed) read(t *testing.T, without string) []serverOutcome {
	s := servers.Spec{
		Records:  servers.Records{Count: 45, Key: "id", Times: true, Names: true},
		Envelope: servers.Envelope{Path: []string{"data"}},
		Paging:   servers.Paging{Kind: servers.KindPage, Param: "page", Base: 1},
		Size:     servers.Size{Default: 10},
	}
	n.list(&s)
	b := newServerBatch(t, []servers.Spec{s}, inMemory())
	defer b.http.Close()
	b.without, b.limits = without, perPage
	b.limits.keySlots = fewKeys
	var all []serverOutcome
	for run := range max(n.runs, 2) {
		all = append(all, b.run(run+1)...)
	}
	return all
}

func byPlaces(s *servers.Spec) {
	s.Paging = servers.Paging{Kind: servers.KindToken, Param: "cursor", Form: "offset"}
	s.Signals = append(s.Signals, servers.Signal{At: "/next_cursor", Says: "next"})
}

func states(s *servers.Spec) {
	s.Signals = append(s.Signals, servers.Signal{At: "/total", Says: "total"})
}

func deletes(run, at int) servers.Move {
	return servers.Move{Run: run, At: at, Kind: servers.MoveDeleteFirst, Count: 1}
}

func inserts(run, at int) servers.Move {
	return servers.Move{Run: run, At: at, Kind: servers.MoveInsertLast, Count: 1}
}

func halved(s *servers.Spec) {
	s.Faults = []servers.Fault{{Kind: servers.FaultHalf, Run: 2, Row: 12}}
}

var neededBy = []needed{
	{rule: "object", about: "one object", list: func(s *servers.Spec) {
		s.Records.Form, s.Records.Count, s.Paging = servers.FormOne, 1, servers.Paging{Kind: servers.KindWhole}
	}},
	{rule: "parents", about: "the details of a list", list: func(s *servers.Spec) {
		states(s)
		s.Reader.Details = true
	}},
	{rule: "second reading", about: "pages without a total", list: func(*servers.Spec) {}},
	{rule: "total", about: "pages with a total", list: states},
	{rule: "reread", about: "one page without a total", list: func(s *servers.Spec) {
		s.Records.Count, s.Paging = 7, servers.Paging{Kind: servers.KindWhole}
	}},

	{rule: "total changed", about: "a deletion shifts a record past the reader, and few pages state a total", list: func(s *servers.Spec) {
		byPlaces(s)
		s.Signals = append(s.Signals, servers.Signal{At: "/total", Says: "total", Every: 4})
		s.Moves = []servers.Move{deletes(1, 8)}
	}},
	{rule: "total not met", about: "half of a page is missing, and the total does not agree", list: func(s *servers.Spec) {
		states(s)
		s.Faults = []servers.Fault{{Kind: servers.FaultHalf, Run: 2, Row: 12}}
	}},
	{rule: "unreadable records", about: "a page fails at every attempt", list: func(s *servers.Spec) {
		s.Faults = []servers.Fault{{Kind: servers.FaultStatus, Run: 2, Row: 23}}
	}},
	{rule: "unstored records", about: "the total counts a record without an id", list: func(s *servers.Spec) {
		states(s)
		s.Records.Odd = servers.OddID
	}},
	{rule: "incomplete answer", about: "a third of the records is missing, and the answers say so", list: func(s *servers.Spec) {
		s.Faults = []servers.Fault{{Kind: servers.FaultPartial, Run: 2, At: "/partial", Value: json.RawMessage(`true`)}}
	}},
	{rule: "unexplained signal", about: "the list has grown beyond the last page that the server shows, and an answer says so", list: func(s *servers.Spec) {
		s.Edits.Insert, s.Paging.Deep = 5, 47
		s.Signals = []servers.Signal{{At: "/umfang", Says: "total", Run: 2}}
	}},
	{rule: "usual length", about: "the list is cut at 10 records, and no answer says so", list: func(s *servers.Spec) {
		s.Paging = servers.Paging{Kind: servers.KindCap}
	}},
	{rule: "overlapping pages", about: "records without a key move to the next page when others are inserted before them", list: func(s *servers.Spec) {
		byPlaces(s)
		s.Records.Key = ""
		s.Moves = []servers.Move{{Run: 1, At: 9, Kind: servers.MoveInsertFirst, Count: 6}}
	}},
	{rule: "twin has more", about: "three records are missing from the list, and the total agrees", list: func(s *servers.Spec) {
		states(s)
		s.Reader.Twin = true
		s.Faults = []servers.Fault{{Kind: servers.FaultLeftOut, Row: 12, Rows: 3}}
	}},
	{rule: "doubtful parents", about: "the details of a list that is cut at 10 records", list: func(s *servers.Spec) {
		s.Paging, s.Reader.Details = servers.Paging{Kind: servers.KindCap}, true
	}},
	{rule: "refuted key", about: "a record takes the id of another one, and the row of its old id is missing", list: func(s *servers.Spec) { s.Edits.Rekey = 1 }},
	{rule: "duplicates not compared", about: "a record takes the id of another one, in a list with more records than a pass compares", list: func(s *servers.Spec) {
		s.Paging = servers.Paging{Kind: servers.KindWhole}
		s.Records.Count, s.Edits.Rekey = 2*fewKeys+101, 1
	}},
	{rule: "repeated records", about: "each page sorts records with equal values differently", list: func(s *servers.Spec) { s.Records.Order = servers.OrderTies }},
	{rule: "end changed", about: "a deletion before the last page shifts the only new record past the reader", list: func(s *servers.Spec) {
		s.Records.Count, s.Edits.Insert = 40, 1
		s.Moves = []servers.Move{deletes(2, 5)}
	}},
	{rule: "total moved", about: "a deletion shifts a record past the reader, and a new record restores the total", list: func(s *servers.Spec) {
		byPlaces(s)
		states(s)
		s.Moves = []servers.Move{deletes(1, 7), inserts(1, 8)}
	}},
	{rule: "readings differ", about: "the first reading is incomplete, and the second one lacks a record", list: func(s *servers.Spec) {
		byPlaces(s)
		s.Faults = []servers.Fault{
			{Kind: servers.FaultPartial, Run: 1, From: 8, To: 8, At: "/partial", Value: json.RawMessage(`true`)},
			{Kind: servers.FaultLeftOut, Run: 1, Row: 25, To: 14},
		}
	}},
	{rule: "part of the list", about: "an incremental reading finds as many changed records as the answer states, and no deleted ones", list: func(s *servers.Spec) {
		states(s)
		s.Reader.Since = "changed_since"
		s.Edits = servers.Edits{Delete: 2, Change: 2, Insert: 1}
	}},
	{rule: "nothing shown", about: "the list is empty, as for a user without permission", list: func(s *servers.Spec) {
		s.Faults = []servers.Fault{{Kind: servers.FaultEmptied}}
	}},
	{rule: "round size", about: "pages after record 30 are empty", list: func(s *servers.Spec) {
		s.Paging.Deep = 30
	}},
	{rule: "uneven pages", about: "half of a page is missing, and no answer says so", list: halved},
	{rule: "pages not shown", about: "the list is cut, and the server refuses every parameter", list: func(s *servers.Spec) {
		s.Paging, s.Size.Default, s.Unknown = servers.Paging{Kind: servers.KindCap}, 12, servers.UnknownRefuse
	}},
	{rule: "earlier reading", about: "a record is in the first reading of a run, and in no later one", list: func(s *servers.Spec) {
		s.Faults = []servers.Fault{{Kind: servers.FaultLeftOut, Row: 12, Run: 2, From: 6}}
	}},
	{rule: "cache", about: "all pages but the first are from a cache, so one record is on no page", list: func(s *servers.Spec) {
		s.Records.Order, s.Edits.Insert = servers.OrderNewest, 1
		for row := 11; row <= 41; row += 10 {
			s.Faults = append(s.Faults, servers.Fault{Kind: servers.FaultCached, Run: 2, Row: row})
		}
	}},

	{rule: "rows unknown", runs: 3, about: "the second run is cut off while it reads details, and a deleted record has no detail", list: func(s *servers.Spec) {
		states(s)
		s.Reader.Details, s.Records.Count, s.Size.Default = true, 500, 100
		s.Edits = servers.Edits{Delete: 1, Change: 300}
		s.Faults = []servers.Fault{{Kind: servers.FaultDetail, Run: 2, From: 270}}
	}},
	{rule: "rest of a resumed pass", about: "the first run is cut off, and a record moves to a page that this run has read", list: func(s *servers.Spec) {
		byPlaces(s)
		s.Edits.Delete = 1
		s.Faults = []servers.Fault{{Kind: servers.FaultStatus, Run: 1, Row: 25, From: 6}}
	}},
	{rule: "better verdict", about: "a deletion shifts a record past the reader, and no total shows it", list: func(s *servers.Spec) {
		s.Moves = []servers.Move{deletes(1, 8)}
	}},
	{rule: "doubtful", about: "a third of the records is missing from the first run on, and the answers say so", list: func(s *servers.Spec) {
		s.Faults = []servers.Fault{{Kind: servers.FaultPartial, At: "/partial", Value: json.RawMessage(`true`)}}
	}},
	{rule: "none missing", about: "a plain list", list: func(*servers.Spec) {}},
	{rule: "parents not requested", about: "a detail moves to a record that has not changed", list: func(s *servers.Spec) {
		states(s)
		s.Reader.Details, s.Edits.Swap = true, 1
	}},
	{rule: "empty list", about: "all records are gone, and the user confirms it", list: func(s *servers.Spec) {
		s.Edits.Delete, s.Reader.Confirm = 45, true
	}},
	{rule: "not proven", about: "half of a page is missing, and no answer says so", list: halved},
	{rule: "no witness", about: "a deletion shifts a record past the reader, and a new record keeps the total", list: func(s *servers.Spec) {
		states(s)
		s.Moves = []servers.Move{deletes(2, 2), inserts(2, 2)}
	}},
	{rule: "rejected records", about: "a record loses its id", list: func(s *servers.Spec) {
		states(s)
		s.Edits.Unkey = 1
	}},
	{rule: "brake", about: "30 of 45 records are missing from the list, and the total agrees", list: func(s *servers.Spec) {
		states(s)
		s.Faults = []servers.Fault{{Kind: servers.FaultLeftOut, Run: 2, Row: 11, Rows: 30}}
	}},
	{rule: "gone", about: "a record is deleted", list: func(s *servers.Spec) {
		states(s)
		s.Edits.Delete = 1
	}},
}
