package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

func (r *listReader) once(t *testing.T, options Options) (StreamReport, Report) {
	t.Helper()
	c := r.source(1)
	defer c.Close()
	rep, err := Run(context.Background(), Config{
		Name: "nightly", Source: c, Streams: []schemas.Stream{r.stream}, Options: options,
		Destinations: []Destination{{Name: "warehouse", Destination: r.memory}},
	})
	require.NoError(t, err)
	return rep.Streams[0], rep
}

func (r *listReader) begin(t *testing.T, handler http.HandlerFunc) {
	r.handler, r.rig = handler, &rig{t: t, memory: loadtest.NewMemory(nil)}
}

func (r *listReader) live() (n int) {
	for _, stands := range r.liveRows() {
		if stands {
			n++
		}
	}
	return n
}

func things(from, to int, without ...int) string {
	var all []string
next:
	for id := from; id <= to; id++ {
		for _, w := range without {
			if id == w {
				continue next
			}
		}
		all = append(all, fmt.Sprintf(`{"id":%d,"name":"n%d"}`, id, id))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// Each case except the controls has one doubt. The stream is held, unless the total resolves the doubt. Without a
// doubt, the same list is proven, and its missing rows are deleted.
func TestDoubtsHoldTheStream(t *testing.T) {
	for name, tt := range map[string]struct {
		end    extract.End
		total  bool
		want   Verdict
		status Status
		says   string
	}{
		"control":                          {extract.End{}, false, Proven, StatusComplete, ""},
		"control with a total":             {extract.End{}, true, Proven, StatusComplete, ""},
		"an unexplained signal":            {extract.End{Unexplained: []string{"header X-Next: abc"}}, false, Unproven, StatusPartial, "header X-Next: abc"},
		"a signal, and the total is right": {extract.End{Unexplained: []string{"header X-Next: abc"}}, true, Proven, StatusComplete, ""},
		"a number above the total":         {extract.End{Unexplained: []string{"/hits: 63"}}, true, Unproven, StatusPartial, "/hits: 63"},
		"an incomplete answer":             {extract.End{Incomplete: []string{"/partial: true"}}, true, Unproven, StatusPartial, "/partial: true"},
		"further pages without records":    {extract.End{OnePageOnly: true, Counted: true}, false, Consistent, StatusPartial, "only the first page ever had records"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10, Total: tt.total}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
			r.must(StatusComplete)
			l.Records, l.End = sourcetest.Records(3, 25), tt.end
			r.restart(nil)
			rep := r.must(tt.status)
			require.Equal(t, tt.want, rep.Streams[0].Verdict, rep.Streams[0].Reasons)
			if tt.says == "" {
				require.Equal(t, sourcetest.Records(3, 25), r.alive("crm_leads"))
				return
			}
			require.Equal(t, 75, rep.ExitCode())
			require.ErrorContains(t, rep.Streams[0].Err, tt.says)
			require.Equal(t, sourcetest.Records(0, 25), r.alive("crm_leads"))
		})
	}
}

func TestListThatChangesItsShapeIsHeld(t *testing.T) {
	r := newReader(t)
	list := `{"data":` + things(1, 60) + `}`
	for name, tt := range map[string]struct {
		before, after string
		says          string
	}{
		"control":                         {list, `{"data":` + things(1, 60, 7) + `,"took":3}`, ""},
		"control, a bare list":            {things(1, 60), things(1, 60, 7), ""},
		"an object with a message":        {list, `{"id":9,"name":"x","message":"Your plan has ended."}`, "is one object now"},
		"an object in the envelope":       {list, `{"data":{"id":900,"name":"x"}}`, "is one object now"},
		"an object in place of a list":    {things(1, 60), `{"id":900,"name":"x","message":"Your plan has ended."}`, "is one object now"},
		"an envelope around a bare list":  {things(1, 60), `{"items":` + things(1, 3) + `}`, `now they are at "/items"`},
		"an envelope that has moved":      {list, `{"result":{"rows":` + things(1, 3) + `}}`, `its records were at "/data"`},
		"an object without a known place": {list, `{"code":7,"note":"nothing here"}`, "its answers have changed"},
	} {
		t.Run(name, func(t *testing.T) {
			body := tt.before
			r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
			s, _ := r.once(t, Options{})
			require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
			rows := r.memory.Rows("x_things")
			for _, options := range []Options{{}, {Full: true}, {ConfirmShrink: true}} {
				body = tt.after
				s, rep := r.once(t, options)
				if tt.says == "" {
					require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
					require.Equal(t, 59, r.live())
					continue
				}
				require.Equal(t, []any{StatusHeld, 75}, []any{s.Status, rep.ExitCode()}, "%v", s.Err)
				require.ErrorContains(t, s.Err, tt.says)
				require.Equal(t, rows, r.memory.Rows("x_things"))
			}
			if body = tt.before; tt.says != "" {
				s, _ = r.once(t, Options{})
				require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
				require.Equal(t, 60, r.live())
			}
		})
	}
}

// A stream counts as one object only if the catalogue says so or two readings have shown it.
func TestOneObjectIsLearnedFromTwoReadings(t *testing.T) {
	r := newReader(t)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":1,"name":"ours"}`) })
	for _, want := range []Verdict{Consistent, Proven, Proven} {
		s, _ := r.once(t, Options{})
		require.Equal(t, want, s.Verdict, s.Reasons)
	}
	r.stream.Class = schemas.ClassSingleton
	r.begin(t, r.handler.ServeHTTP)
	s, _ := r.once(t, Options{})
	require.Equal(t, Proven, s.Verdict, s.Reasons)
}

func TestBrokenPageIsAGap(t *testing.T) {
	r := newReader(t)
	broken, last := 0, 60
	r.begin(t, func(w http.ResponseWriter, q *http.Request) {
		page, _ := strconv.Atoi(q.URL.Query().Get("page"))
		if page = max(page, 1); page == broken {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"message":"Server Error"}`)
			return
		}
		fmt.Fprintf(w, `{"data":%s,"meta":{"current_page":%d,"last_page":6}}`, things(page*10-9, min(page*10, last)), page)
	})
	broken = 3
	s, rep := r.once(t, Options{})
	require.Equal(t, 50, r.live(), "%v", s.Err)
	require.Equal(t, []any{StatusHeld, Unproven, 75}, []any{s.Status, s.Verdict, rep.ExitCode()})
	require.ErrorContains(t, s.Err, "records 21 to 30 of the list (page 3)")

	broken = 0
	s, _ = r.once(t, Options{})
	require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
	require.Equal(t, 60, r.live())

	broken, last = 3, 57
	s, _ = r.once(t, Options{})
	require.Equal(t, StatusHeld, s.Status)
	require.Equal(t, 60, r.live(), "nothing is deleted while the list has a gap")
	broken = 0
	s, _ = r.once(t, Options{})
	require.Equal(t, []any{StatusComplete, Proven}, []any{s.Status, s.Verdict}, "%v", s.Err)
	require.Equal(t, 57, r.live())
}

func TestHalfOfASmallTableIsHeld(t *testing.T) {
	for _, tt := range []struct{ rows, left int }{{10, 6}, {10, 5}, {30, 15}, {30, 16}, {9, 4}} {
		l := &sourcetest.List{Records: sourcetest.Records(0, tt.rows), Size: 50, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.must(StatusComplete)
		l.Records = sourcetest.Records(0, tt.left)
		r.restart(nil)
		if tt.rows < 10 || 2*tt.left > tt.rows {
			r.must(StatusComplete)
			require.Len(t, r.alive("crm_leads"), tt.left)
			continue
		}
		rep := r.must(StatusPartial)
		require.ErrorContains(t, rep.Streams[0].Err, "--confirm-shrink")
		require.Len(t, r.alive("crm_leads"), tt.rows)
		r.restart(nil)
		r.config.Options.ConfirmShrink = true
		r.must(StatusComplete)
		require.Len(t, r.alive("crm_leads"), tt.left)
	}
}

// While a list changes, a reading may return as many records as the total states, although it contains one record twice
// and lacks another. So the run reads the list until two readings agree.
func TestKeylessListThatMovesIsNotProvenByItsCount(t *testing.T) {
	for _, moves := range []int{0, 1, 2, 1000} {
		r := newReader(t)
		r.stream.Key = nil
		first, left := 1, 0
		r.begin(t, func(w http.ResponseWriter, q *http.Request) {
			page, _ := strconv.Atoi(q.URL.Query().Get("page"))
			if page = max(page, 1); page == 2 && left > 0 {
				left--
				first-- // a record is inserted at the front, and the last one disappears
			}
			fmt.Fprintf(w, `{"data":%s,"meta":{"current_page":%d,"last_page":3,"total":30}}`, things(first+page*10-10, min(first+page*10-1, first+29)), page)
		})
		c := r.source(1)
		n, err := c.Negotiate(t.Context(), r.stream)
		require.NoError(t, err)
		require.NoError(t, Remember(t.Context(), Config{Name: "nightly", Source: c, Streams: []schemas.Stream{r.stream},
			Destinations: []Destination{{Name: "warehouse", Destination: r.memory}}}, map[string]extract.Convention{r.stream.Name: n}))
		require.NoError(t, c.Close())
		left = moves
		s, rep := r.once(t, Options{})
		if moves == 1000 {
			require.Equal(t, []any{Unproven, 75}, []any{s.Verdict, rep.ExitCode()}, s.Reasons)
			continue
		}
		require.Equal(t, []any{Proven, StatusComplete}, []any{s.Verdict, s.Status}, "%d moves: %s: %v", moves, s.Reasons, s.Err)
		require.Equal(t, 2+moves, s.Passes)
		require.Equal(t, 30, r.live())
	}
}

// One wrong answer omits rows of a parent. These rows are deleted only if a second reading omits them too.
func TestOneWrongAnswerBelowAParentDeletesNothing(t *testing.T) {
	e := newEstate(t, 12)
	e.lists, e.reread = true, 1
	for id := range e.parents {
		e.items[id] = []int{10 * id, 10*id + 1, 10*id + 2}
	}
	e.complete(Options{})
	e.once = map[int]bool{4: true}
	_, child := e.sync(Options{})
	require.Zero(t, child.Counts.Deleted)
	require.Len(t, e.rows("x_items", "id"), 36)
	require.Equal(t, StatusComplete, child.Status, "%v", child.Err)

	e.items[4] = []int{40} // the control: these rows are really gone
	_, child = e.complete(Options{})
	require.EqualValues(t, 2, child.Counts.Deleted)
	require.Equal(t, Proven, child.Verdict)
	require.Len(t, e.rows("x_items", "id"), 34)
}

func TestRowsThatTheFilterTakesAwayHaveAnotherReason(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 25), Size: 10}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.must(StatusComplete)
	l.Records = sourcetest.Records(0, 24) // the control: one record is gone at the source
	r.restart(nil)
	rep := r.must(StatusComplete)
	require.EqualValues(t, 1, rep.Streams[0].Counts.Deleted)
	require.Empty(t, rep.Streams[0].Notices)
	require.Empty(t, r.last("crm_leads").Note)

	r.config.Streams[0].Rules.Filter = []schemas.Condition{{Column: "name", NotIn: []string{"n3", "n7"}}}
	r.restart(nil)
	rep = r.must(StatusComplete)
	require.EqualValues(t, 2, rep.Streams[0].Counts.Deleted)
	require.Equal(t, drift.NoticeFilter, rep.Streams[0].Notices[0].Kind)
	require.Contains(t, r.last("crm_leads").Note, "2 rows were marked as deleted in the pass in which the stream's filter changed")

	l.Records = sourcetest.Records(0, 23)
	r.restart(nil)
	rep = r.must(StatusComplete)
	require.EqualValues(t, 1, rep.Streams[0].Counts.Deleted)
	require.Empty(t, rep.Streams[0].Notices, "the filter has not changed")
}

// The source answers with an error instead of a page. The page before is full, so the error may hide further records.
// A second reading ends at the same page. Rows that are missing from both readings are kept until a person confirms
// their deletion.
func TestRowsAfterRefusedPagesAreKept(t *testing.T) {
	for name, tt := range map[string]struct {
		last   int
		refuse bool
		live   int
		held   bool
	}{
		"the end is an empty page":               {50, false, 50, false},
		"the end is refused after a short page":  {54, true, 54, false},
		"the end is refused after a full page":   {50, true, 60, true},
		"nothing is missing, the end is refused": {60, true, 60, false},
		"nothing is missing, the end is empty":   {60, false, 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			last, refuse := 60, false
			r := newReader(t)
			r.begin(t, func(w http.ResponseWriter, q *http.Request) {
				p, err := strconv.Atoi(q.URL.Query().Get("page"))
				if err != nil || p < 1 {
					p = 1
				}
				if refuse && p*10-9 > last {
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprint(w, `{"message":"Not found."}`)
					return
				}
				fmt.Fprintf(w, `{"data":%s}`, things(p*10-9, min(p*10, last)))
			})
			rep, _ := r.once(t, Options{})
			require.Equal(t, StatusComplete, rep.Status, rep.Err)
			last, refuse = tt.last, tt.refuse
			rep, all := r.once(t, Options{})
			require.Equal(t, tt.live, r.live(), rep.Err)
			if tt.held {
				require.ErrorContains(t, rep.Err, "the source refuses the page after the last full page")
				require.Equal(t, Consistent, rep.Verdict)
				require.Contains(t, rep.Reasons, "so the list may go on")
				require.Equal(t, 75, all.ExitCode())
				_, _ = r.once(t, Options{ConfirmShrink: true})
				require.Equal(t, tt.last, r.live())
			}
		})
	}
}
