package extract_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type queue []state.Event

func (q queue) Events(_ context.Context, source string, after int64, limit int) ([]state.Event, error) {
	if source != "main" {
		return nil, errors.New("another source")
	}
	return q[min(after, int64(len(q))):min(after+int64(limit), int64(len(q)))], nil
}

func inboxOf(t *testing.T, events ...state.Event) *extract.Inbox {
	t.Helper()
	known, err := schemas.LoadEvents()
	require.NoError(t, err)
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	return extract.NewInbox(queue(events), "main", known, catalogue.Streams())
}

func TestInboxReadsEventsAsHints(t *testing.T) {
	in := inboxOf(t)
	for name, tt := range map[string]struct {
		kind, body string
		want       string
	}{
		"as documented":                       {"invoice.paid", `{"id":"evt_1","type":"invoice.paid","data":{"id":"inv_7","amount":100}}`, `v2.invoices="inv_7"`},
		"an id of the other surface":          {"invoice.paid", `{"data":{"id":7}}`, "sales.invoices=7"},
		"in a member named like the type":     {"lead.created", `{"data":{"lead":{"id":7,"name":"A"}}}`, "crm.lead_board=7 crm.leads=7"},
		"the only member, under another name": {"contact.updated", `{"data":{"customer":{"id":"con_9"}}}`, `v2.contacts="con_9"`},
		"in a member named object":            {"contact.updated", `{"data":{"previous":{},"object":{"id":"con_9"}}}`, `v2.contacts="con_9"`},
		"a part of a record":                  {"deal.task_added", `{"data":{"id":55,"deal_id":7}}`, "crm.deals=7"},
		"a code that is named like an id":     {"employee.updated", `{"data":{"id":3,"employee_id":"EMP-3"}}`, "hr.employees=3"},
		"an id of another shape":              {"contact.updated", `{"data":{"id":1000000001}}`, "v2.contacts=1000000001"},
		"no id":                               {"lead.created", `{"data":[]}`, "crm.lead_board= crm.leads="},
		"no data":                             {"lead.created", `{"id":"e"}`, "crm.lead_board= crm.leads="},
		"an id that is not a scalar":          {"contact.updated", `{"data":{"id":{"x":1}}}`, "v2.contacts="},
		"a number that is not an integer":     {"lead.updated", `{"data":{"id":1e3}}`, "crm.lead_board= crm.leads="},
	} {
		t.Run(name, func(t *testing.T) {
			d := in.Read(state.Event{Type: tt.kind, Body: []byte(tt.body)})
			var got []string
			for _, h := range d.Hints {
				got = append(got, h.Stream+"="+h.Key)
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
			require.False(t, d.Unmapped || d.Unparsed)
		})
	}
}

func TestInboxUnreadableEvents(t *testing.T) {
	in := inboxOf(t)
	for _, body := range []string{"", "null", "[]", "7", `{"data":`, "\xff", `{"data":{}} {}`} {
		d := in.Read(state.Event{Type: "contact.updated", Body: []byte(body)})
		require.True(t, d.Unparsed && d.Unmapped && d.Hints == nil, "%q", body)
	}
	for _, kind := range []string{"", "gadget.made", "../../x", strings.Repeat("contact.", 300)} {
		d := in.Read(state.Event{Type: kind, Body: []byte(`{"data":{"id":"con_1"}}`)})
		require.True(t, d.Unmapped && !d.Unparsed, kind)
	}
}

func TestInboxAfter(t *testing.T) {
	in := inboxOf(t, state.Event{Ordinal: 1, Type: "contact.deleted", Body: []byte(`{"data":{"id":"con_1"}}`)}, state.Event{Ordinal: 2})
	all, err := in.After(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.True(t, all[0].Hints[0].Gone)
	all, err = in.After(t.Context(), 1, 10)
	require.NoError(t, err)
	require.EqualValues(t, 2, all[0].Ordinal)
}

func FuzzInboxRead(f *testing.F) {
	f.Add("contact.updated", []byte(`{"data":{"id":"con_1","lead":{"id":7}}}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		for _, h := range inboxOf(t).Read(state.Event{Type: kind, Body: body}).Hints {
			require.NotEmpty(t, h.Stream)
		}
	})
}

func TestLikeness(t *testing.T) {
	like, err := records.NewRecordForm([]byte(`[{"id":1,"name":"a","seen":5}, {"id":2, "name":"b","seen":6,"note":null}]`), "id", []string{"seen"})
	require.NoError(t, err)
	require.Equal(t, []string{"2", "1"}, like.Keys())
	for record, same := range map[string]bool{
		`{"id":1,"name":"a","seen":5}`:                            true,
		`{"seen":9,"items":[{"id":3}],"name":"a","id":1}`:         true, // other order, more members, another value of a volatile member
		`{"id":2,"name":"b","seen":6,"note":null}`:                true,
		`{"id":2,"name":"b","seen":6}`:                            false, // lacks the member note, which the listed record has
		`{"id":1,"name":"A","seen":5}`:                            false,
		`{"id":1,"name": "a","seen":5}`:                           false, // equal values, but other bytes, so the hash of the row differs
		`{"id":7,"name":"a","seen":5}`:                            false,
		`{"id":1,"seen":5}`:                                       false,
		`[]`:                                                      false,
		`{"id":1,"name":"a","seen":5,"note":{"deep":[1,2,3]}} x`:  false,
		`{"id":1,"name":"a","seen":5,"note":"only the second's"}`: false,
	} {
		require.Equal(t, same, like.Same([]byte(record)), record)
	}
	fit, err := like.Fit([]byte(`{ "id" : 3 , "extra":[1,{"a":"}"}], "name" : "c" , "seen": 1 }`))
	require.NoError(t, err)
	require.Equal(t, `{"id" : 3,"name" : "c","seen": 1}`, string(fit))
	_, err = like.Fit([]byte(`{"id":3,"name":"c"}`))
	require.ErrorContains(t, err, `it lacks "seen"`)
}

func TestDisagree(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want []string
	}{
		{`{"id":1,"name":"a"}`, `{"id":1,"name":"b","x":1}`, []string{"name"}},
		{`{"name":"\u0061"}`, `{"name":"a"}`, nil},
		{`{"n":1}`, `{"n":"1"}`, []string{"n"}},
		{`{"o":{"a":1}}`, `{"o":{"a":2}}`, nil},
		{`{"a":true}`, `{"a":false}`, []string{"a"}},
		{`[]`, `{"a":1}`, nil},
		{``, `{}`, nil},
	} {
		require.Equal(t, tt.want, records.DifferingMembers([]byte(tt.a), []byte(tt.b)), "%s, %s", tt.a, tt.b)
	}
}
