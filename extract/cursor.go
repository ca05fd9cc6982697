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
	"strconv"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// passCursor is what a cursor says: which pass, and where in it. Every mark of a pass
// differs from every other, since it counts the pages, and passes differ by
// their ids; so a cursor never comes back.
type passCursor struct {
	Version int    `json:"v"`
	Pass    string `json:"pass"`
	Of      string `json:"of,omitempty"`  // fingerprint of the stream's request: a changed one is read anew
	End     bool   `json:"end,omitempty"` // the pass is over

	Kind    pagerKind `json:"pager,omitempty"`
	Param   string    `json:"param,omitempty"`
	At      string    `json:"at,omitempty"`
	Pointer string    `json:"records,omitempty"`
	Form    form      `json:"form,omitempty"`
	Total   int64     `json:"total,omitempty"` // on the first page, plus one; 0 for none
	Pages   int       `json:"pages,omitempty"`
	Rows    int64     `json:"rows,omitempty"`
	Step    int64     `json:"step,omitempty"`
	Size    int       `json:"size,omitempty"`   // records a page that were asked for, where not the stream's own
	Barren  int       `json:"barren,omitempty"` // empty pages in a row
	Zero    bool      `json:"zero,omitempty"`   // pages are counted from 0
	Filled  int       `json:"filled,omitempty"` // records on the last page that held some
	Uneven  bool      `json:"uneven,omitempty"` // records came after a page that was not full

	Incomplete  []string `json:"incomplete,omitempty"`  // what pages have said of their own completeness
	Unexplained []string `json:"unexplained,omitempty"` // fan-out: signals that nothing explains

	Gaps []Gap `json:"gaps,omitempty"` // what the server could not give so far; maxIsolating bounds them

	recall
	Frame windowPlan `json:"windows,omitzero"`

	Parents int    `json:"parents,omitempty"` // fan-out: how many are done
	Skipped int    `json:"skipped,omitempty"` // of which not asked
	Gone    int    `json:"gone,omitempty"`
	Short   int    `json:"short,omitempty"`  // of which the list may lack something
	Tuples  string `json:"tuples,omitempty"` // and the fingerprint of what they gave
}

const passCursorVersion = 1

// newPassCursor is the beginning of a pass over s.
func newPassCursor(s schemas.Stream) passCursor {
	id := make([]byte, 9)
	rand.Read(id)
	return passCursor{Version: passCursorVersion, Pass: hex.EncodeToString(id), Of: pagesOf(s)}
}

// anew is the beginning of the pass m, with an id of its own.
func (m passCursor) anew(s schemas.Stream) passCursor {
	n := newPassCursor(s)
	n.recall, n.Frame = m.recall, m.Frame
	n.Frame.Barren, n.Frame.Found = 0, false
	return n
}

// fingerprint tells apart requests that are not the same list.
func fingerprint(s schemas.Stream) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %q %q", s.Surface, s.Method, s.Path, s.Parent, s.Params)
	return hex.EncodeToString(h.Sum(nil))
}

// pagesOf tells apart requests whose pages are not the same: a page number
// means another place where pages have another size.
func pagesOf(s schemas.Stream) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %+v", fingerprint(s), s.Pagination)
	return hex.EncodeToString(h.Sum(nil))
}

// cursor is m as it is stored.
func (m passCursor) cursor() state.Cursor {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return state.Cursor(b)
}

// ending is the cursor after the last page.
func (m passCursor) ending() state.Cursor {
	return passCursor{Version: passCursorVersion, Pass: m.Pass, End: true, recall: m.left()}.cursor()
}

// ErrCursor is returned, wrapped, by [Client.Pages] for a cursor that it has not
// made or no longer understands.
var ErrCursor = errors.New("unknown cursor; reset the stream's state to read it anew")

// parsePassCursor reads a cursor. The empty one and an end cursor are the beginning of
// a new pass, for which ok is false.
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
	case m.Total < 0 || m.Pages < 0 || m.Rows < 0 || m.Step < 0 || m.Parents < 0 || m.Gone < 0 || m.Short < 0 || m.Skipped < 0 || m.Skipped > m.Parents || m.Size < 0 || m.Barren < 0 || m.Filled < 0 || m.Form > formOne:
		return false
	case m.Pointer != "" && m.Pointer[0] != '/':
		return false
	}
	switch m.Kind {
	case pagerNone:
		return m.At == "" && m.Param == ""
	case pagerPage, pagerOffset:
		_, err := strconv.ParseUint(m.At, 10, 62)
		return err == nil && m.Param != ""
	case pagerCursor:
		return m.At != "" && m.Param != ""
	case pagerLink:
		return m.At != "" && m.Param == ""
	case pagerRange:
		return m.At != ""
	}
	return false
}

func (m passCursor) position() position { return position{kind: m.Kind, param: m.Param, at: m.At} }
