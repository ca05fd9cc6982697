// Package paging finds out how a list continues after its first page, and follows it from page to page. It sends no
// requests itself: see [List].
package paging

import (
	"context"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// List is a list whose paging is unknown.
type List interface {
	// Stream returns the stream with the paging that the next requests use. The caller may change this paging.
	Stream() *schemas.Stream

	// Values returns the values that the stream itself sends for a parameter.
	Values(param string) []string

	// Look requests the page at a position. The caller must call Release.
	Look(ctx context.Context, at Position) (*Page, error)

	// Release frees the memory of a page's answer.
	Release(p *Page)

	// Locate finds the records in an answer.
	Locate(d *jsondoc.Doc) (records.Found, error)

	// ID returns the id of a record, as a request for the next page sends it.
	ID(d *jsondoc.Doc, record jsondoc.Value) string

	// Requests returns the number of requests so far.
	Requests() int
}

// Page is one answer of a list, as far as paging is concerned.
type Page struct {
	At Position
	Hashes
	Doc     *jsondoc.Doc
	Signals Signals
	Total   int64  // the total of the list, or -1
	Rule    string // the rule by which the list ends after this page; "" if it may continue
	Note    string // a note for people
	Answer  any    // data of the implementation of List; not used here
}

// Hashes are hashes of records. They show whether two answers have the same records.
type Hashes struct {
	N       int
	Keys    []uint64 // hashes of the records' keys; for a record without a key, the hash of its content
	Content []uint64 // hashes of the records' content; may be missing
	First   jsondoc.Value
	Last    jsondoc.Value
}

// The rules by which a list may end.
const (
	RuleOnePage   = "one_page"   // the list ignores paging parameters, so the first page is the whole list
	RuleLastPage  = "last_page"  // the last page was reached; the list states its number
	RuleTotal     = "total"      // the total that the list states was reached
	RuleNoNext    = "no_next"    // the answer has no next link or cursor, or says that no more records follow
	RuleEmptyPage = "empty_page" // the page after the end is empty, or the server refuses it
)
