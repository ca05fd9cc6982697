package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func clock(t *testing.T, answer func(month, year int) string) (*fixture, schemas.Stream) {
	s := monthly()
	s.Months.First = month(time.Now()).AddDate(0, -5, 0)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		text := answer(number(r, "month", 0), number(r, "year", 0))
		var all []any
		require.NoError(t, json.Unmarshal([]byte(text), &all))
		items(w, text, len(all), 1, 1)
	}, s), s
}

// If two months have equal answers, the server may ignore the month. This is proved if a month without data has the
// same answer too.
func TestMonthsCanBeRefuted(t *testing.T) {
	this := month(time.Now())
	var answers atomic.Int64
	for _, tt := range []struct {
		name    string
		answer  func(month, year int) string
		stated  bool
		refuted bool
	}{
		{"the server ignores the month", func(int, int) string { return `[{"id":1,"a":2},{"id":2}]` }, false, true},
		{"the server ignores the month, and answers have a timestamp", func(int, int) string {
			n := answers.Add(1)
			return fmt.Sprintf(`[{"id":1,"a":2,"asked":%d},{"id":2,"asked":%d}]`, n, n)
		}, false, true},
		{"the server ignores the month, and the user configured it", func(int, int) string { return `[{"id":1,"a":2},{"id":2}]` }, true, false},
		{"each month has its records", func(m, y int) string { return fmt.Sprintf(`[{"id":%d}]`, 100*y+m) }, false, false},
		{"two months are equal by chance", func(m, y int) string {
			if y < 2000 {
				return `[]`
			}
			return `[{"id":1,"a":2}]`
		}, false, false},
		{"the ids begin again in each month", func(m, y int) string {
			if y < 2000 {
				return `[]`
			}
			return fmt.Sprintf(`[{"id":1,"day":"%d-%02d-01"}]`, y, m)
		}, false, false},
		{"each month has the same ids, with its own dates", func(m, y int) string {
			return fmt.Sprintf(`[{"id":1,"day":"%d-%02d-01"},{"id":2,"day":"%d-%02d-02"}]`, y, m, y, m)
		}, false, false},
		{"only one month has records", func(m, y int) string {
			if m == int(this.Month()) && y == this.Year() {
				return `[{"id":1}]`
			}
			return `[]`
		}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := clock(t, tt.answer)
			if tt.stated {
				s.Stated = map[string]string{HypothesisMonths: schemas.StatedConfigured}
			}
			_, err := read(c.Client, s, "")
			refuted, ok := errors.AsType[*RefutedError](err)
			require.Equal(t, tt.refuted, ok, "%v", err)
			switch {
			case tt.stated:
				require.ErrorContains(t, err, "ignores month and year")
				require.ErrorContains(t, err, "remove `months`")
			case tt.refuted:
				require.Equal(t, HypothesisMonths, refuted.Hypothesis)
				simple := Convention{Dropped: []string{refuted.Hypothesis}}.WithoutRefuted(s)
				r, err := read(c.Client, simple, "")
				require.NoError(t, err)
				require.Equal(t, "1,2", r.ids())
			default:
				require.NoError(t, err)
			}
		})
	}
}

func TestMonthsAreContextWhereTheKeyNeedsThem(t *testing.T) {
	c, s := clock(t, func(m, y int) string { return fmt.Sprintf(`[{"id":1,"in":"%d-%02d"}]`, y, m) })
	r, err := read(c.Client, s, "")
	require.NoError(t, err)
	require.NotContains(t, string(r.records[0]), "_context")
	s.Key = []string{"_context__month", "_context__year", "id"}
	r, err = read(c.Client, s, "")
	require.NoError(t, err)
	this := month(time.Now().Add(clocksAhead))
	require.JSONEq(t, fmt.Sprintf(`{"id":1,"in":"%d-%02d","_context":{"month":%d,"year":%d}}`, this.Year(), this.Month(), this.Month(), this.Year()), string(r.records[0]))
}

func kinds(t *testing.T, parents string, answer func(parent any) (status int, text string)) (c *fixture, child schemas.Stream) {
	parent := list("x.meetings", "id")
	child = list("x.kinds", "id")
	child.Key = []string{"_context__parent", "id"}
	child.Parent, child.Method, child.Path = "x.meetings", "POST", "/api/kinds"
	child.Params = []schemas.Param{{Name: "parent", In: "body", From: "/parent"}}
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"data":%s}`, parents)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var requested map[string]any
		require.NoError(t, json.Unmarshal(body, &requested))
		status, text := answer(requested["parent"])
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}, parent, child)
	_, err := read(c.Client, parent, "")
	require.NoError(t, err)
	return c, child
}

// If the source ignores the parameter, reading the list once per parent would multiply the rows.
func TestParentParameterCanBeRefuted(t *testing.T) {
	const two = `[{"id":1,"parent":"Lead"},{"id":2,"parent":"Account"},{"id":3,"parent":null}]`
	all := func(any) (int, string) { return 200, `{"data":[{"id":5,"name":"a"},{"id":6,"name":"b"}]}` }
	byKind := func(parent any) (int, string) {
		switch parent {
		case "Lead", "Account":
			return 200, fmt.Sprintf(`{"data":[{"id":5,"name":"%v"}]}`, parent)
		}
		return 422, `{"message":"The parent field is required."}`
	}
	alike := func(parent any) (int, string) {
		switch parent {
		case "Lead", "Account":
			return 200, `{"data":[{"id":5,"name":"a"}]}`
		}
		return 200, `{"data":[]}`
	}
	for _, tt := range []struct {
		name    string
		parents string
		answer  func(any) (int, string)
		stated  bool
		refuted bool
		forNow  bool
		ids     string
	}{
		{"the server ignores the parameter", two, all, false, true, false, "5,6"},
		{"the server ignores the parameter, and the user configured it", two, all, true, false, false, ""},
		{"the server uses the parameter", two, byKind, false, false, false, "5,5"},
		{"two parents have the same records", two, alike, false, false, false, "5,5"},
		{"no parent has a value", `[{"id":1,"parent":null},{"id":2}]`, all, false, true, true, "5,6"},
		{"no parent has a value, and the list needs a value", `[{"id":1,"parent":null}]`, byKind, false, false, false, ""},
		{"there are no parents", `[]`, all, false, false, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, child := kinds(t, tt.parents, tt.answer)
			if tt.stated {
				child.Stated = map[string]string{HypothesisParent: schemas.StatedConfigured}
			}
			r, err := read(c.Client, child, "")
			refuted, ok := errors.AsType[*RefutedError](err)
			require.Equal(t, tt.refuted, ok, "%v", err)
			switch {
			case tt.stated:
				require.ErrorContains(t, err, "ignores parent")
				require.ErrorContains(t, err, "remove `parent`")
				return
			case tt.refuted:
				require.Equal(t, HypothesisParent, refuted.Hypothesis)
				require.Equal(t, tt.forNow, refuted.Temporary)
				simple := Convention{Dropped: []string{refuted.Hypothesis}}.WithoutRefuted(child)
				require.Equal(t, []string{"id"}, simple.Key)
				r, err = read(c.Client, simple, "")
			}
			require.NoError(t, err)
			require.Equal(t, tt.ids, r.ids())
		})
	}
}
