package extract

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// passCursor is the content of a cursor. No two cursors are equal: the cursors of one pass have different positions,
// and each pass has its own id.
type passCursor struct {
	Version int    `json:"v"`
	Pass    string `json:"pass"`
	Of      string `json:"of,omitempty"`  // fingerprint of the request and paging; if it changes, the pass starts again
	End     bool   `json:"end,omitempty"` // the pass has ended

	Kind    paging.Kind  `json:"pager,omitempty"`
	Param   string       `json:"param,omitempty"`
	At      string       `json:"at,omitempty"`
	Pointer string       `json:"records,omitempty"`
	Form    records.Form `json:"form,omitempty"`
	Total   int64        `json:"total,omitempty"` // the total that the first page states, plus one; 0 means no total
	Pages   int          `json:"pages,omitempty"`
	Rows    int64        `json:"rows,omitempty"`
	Step    int64        `json:"step,omitempty"`
	Size    int          `json:"size,omitempty"`   // the requested page size, if it differs from the page size of the stream
	Barren  int          `json:"barren,omitempty"` // consecutive empty pages
	Zero    bool         `json:"zero,omitempty"`   // pages are numbered from 0
	Filled  int          `json:"filled,omitempty"` // records on the last page that was not empty
	Uneven  bool         `json:"uneven,omitempty"` // records came after a page that was not full

	Incomplete  []string `json:"incomplete,omitempty"`  // texts in which pages say that they are incomplete
	Unexplained []string `json:"unexplained,omitempty"` // child stream: signals that no rule explains

	Gaps []Gap `json:"gaps,omitempty"` // what could not be read; maxGaps and maxIsolating limit the number

	recall
	Plan windowPlan `json:"windows,omitzero"`

	Parents int    `json:"parents,omitempty"` // child stream: parents that are done
	Skipped int    `json:"skipped,omitempty"` // child stream: parents that were skipped; they are included in Parents
	Gone    int    `json:"gone,omitempty"`    // child stream: parents for which the server found nothing
	Short   int    `json:"short,omitempty"`   // child stream: parents whose list may be incomplete
	Tuples  string `json:"tuples,omitempty"`  // child stream: fingerprint of the values of all parents that are done
}

const passCursorVersion = 1

func newPassCursor(s schemas.Stream) passCursor {
	id := make([]byte, 9)
	rand.Read(id)
	return passCursor{Version: passCursorVersion, Pass: hex.EncodeToString(id), Of: pagesOf(s)}
}

func (m passCursor) restarted(s schemas.Stream) passCursor {
	n := newPassCursor(s)
	n.recall, n.Plan = m.recall, m.Plan
	n.Plan.Barren, n.Plan.Found = 0, false
	return n
}

func fingerprint(s schemas.Stream) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %q %q", s.Surface, s.Method, s.Path, s.Parent, s.Params)
	return hex.EncodeToString(h.Sum(nil))
}

// pagesOf returns a fingerprint of the request and its paging. The paging includes the page size, because with another
// page size the same page number is another position in the list.
func pagesOf(s schemas.Stream) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %+v", fingerprint(s), s.Pagination)
	return hex.EncodeToString(h.Sum(nil))
}

func (m passCursor) cursor() state.Cursor {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return state.Cursor(b)
}

func (m passCursor) ending() state.Cursor {
	return passCursor{Version: passCursorVersion, Pass: m.Pass, End: true, recall: m.nextRecall()}.cursor()
}

// ErrCursor is wrapped by errors of [Client.Pages] if the cursor was not made by this package, or has an unknown
// version.
var ErrCursor = errors.New("unknown cursor; reset the stream's state to read it from the beginning")

func parsePassCursor(c state.Cursor) (m passCursor, ok bool, err error) {
	if c == "" {
		return passCursor{}, false, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(c)))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return passCursor{}, false, fmt.Errorf("read cursor: %w", ErrCursor)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || !m.valid() {
		return passCursor{}, false, fmt.Errorf("read cursor: %w", ErrCursor)
	}
	return m, !m.End, nil
}

func (m passCursor) valid() bool {
	switch {
	case m.Version != passCursorVersion || m.Pass == "":
		return false
	case m.Total < 0 || m.Pages < 0 || m.Rows < 0 || m.Step < 0 || m.Parents < 0 || m.Gone < 0 || m.Short < 0 || m.Skipped < 0 || m.Skipped > m.Parents || m.Size < 0 || m.Barren < 0 || m.Filled < 0 || m.Form > records.FormOne:
		return false
	case m.Pointer != "" && m.Pointer[0] != '/':
		return false
	}
	return m.position().Valid()
}

func (m passCursor) position() paging.Position {
	return paging.Position{Kind: m.Kind, Param: m.Param, At: m.At}
}

// recall is what a pass of an incremental stream stores in the cursor for the next pass.
//
// The edge of a pass is the time up to which the pass has read the changes. The settled edge is the edge at which the
// next pass begins. After a pass with one page, the edge of this pass is settled. A pass with several pages may miss a
// record: a record that changes during the pass moves to another page, and other records shift. So after such a pass,
// the edge of the pass before it is settled. For example, if pass 2 has several pages, pass 3 begins at the edge of
// pass 1. The edge of the first pass is always settled, because there is no earlier edge. If two passes miss a change,
// the next whole pass finds it.
type recall struct {
	By        string    `json:"by,omitempty"`        // the field and parameter that limit the pass
	Since     time.Time `json:"since,omitzero"`      // the request leaves out records changed before this time
	Tail      bool      `json:"tail,omitempty"`      // the list has the latest change first: the pass ends at a page whose records were all changed before the time Before
	Before    time.Time `json:"before,omitzero"`     // the settled edge minus the lookback: records changed earlier cannot be new
	Top       time.Time `json:"top,omitzero"`        // latest time of change seen so far, at most Began
	Began     time.Time `json:"began,omitzero"`      // changes during this pass have this time or a later one
	ClockBack bool      `json:"behind,omitempty"`    // the source's clock was set back: the next pass is whole
	Misplaced string    `json:"misplaced,omitempty"` // how a page contradicts the order: see misplace
	Edge      time.Time `json:"edge,omitzero"`       // the edge of the last finished pass
	Settled   time.Time `json:"settled,omitzero"`    // the edge at which the next pass may begin
	Whole     time.Time `json:"whole,omitzero"`      // when the last whole pass began, by [Config.Now]
}

// nextRecall returns what this pass stores for the next pass.
func (m *passCursor) nextRecall() recall {
	if m.ClockBack {
		return recall{By: m.By}
	}
	edge := m.Top
	if m.Began.Before(edge) {
		edge = m.Began
	}
	settled := edge
	if m.Pages > 1 && !m.Edge.IsZero() {
		settled = m.Edge
	}
	return recall{By: m.By, Top: m.Top, Edge: edge, Settled: settled, Whole: m.Whole}
}

func (m *passCursor) partial() bool { return m.Tail || !m.Since.IsZero() || m.Plan.Part }
