// Package servers speaks list protocols that are described by data: a [Spec] says
// where an answer keeps its records, how the list goes on, what stands beside the
// records, and what goes wrong. A [List] serves one Spec over HTTP and knows the
// truth: what a complete reading of it must yield. [Draw] makes a Spec from a seed.
//
// The sandbox serves Specs by name, and the generator of servers serves those that
// it draws, so both speak exactly the same protocols.
package servers

import "encoding/json"

// Spec is one list and the protocol that serves it. It is data, and can be written
// as JSON and read back.
type Spec struct {
	Seed     uint64   `json:"seed,omitempty"`   // that Draw made it from
	Method   string   `json:"method,omitempty"` // GET unless set
	Records  Records  `json:"records"`
	Envelope Envelope `json:"envelope"`
	Paging   Paging   `json:"paging"`
	Size     Size     `json:"size"`
	Signals  []Signal `json:"signals,omitempty"`
	Unknown  string   `json:"unknown,omitempty"` // unknown parameters: "" ignores, see UnknownRefuse and UnknownFilter
	Edits    Edits    `json:"edits"`
	Moves    []Move   `json:"moves,omitempty"`
	Faults   []Fault  `json:"faults,omitempty"`
	Reader   Reader   `json:"reader,omitzero"`
}

// Reader says how the list is read, where that is not by its path alone.
type Reader struct {
	Since   string `json:"since,omitempty"`   // incremental: by this parameter, which leaves out what was changed before a moment
	Twin    bool   `json:"twin,omitempty"`    // another stream shows the same records, without the faults
	Details bool   `json:"details,omitempty"` // each record has a detail at an address of its own, and those are read
	Confirm bool   `json:"confirm,omitempty"` // the user confirms that the table may shrink
}

// What a list does with a parameter that it does not know, other than to ignore it.
const (
	UnknownRefuse = "refuse" // answers 400
	UnknownFilter = "filter" // takes it for a filter that no record passes
)

// Records says what the list holds.
type Records struct {
	Count int    `json:"count"`
	Key   string `json:"key,omitempty"`  // the member with the id; "" for records without one
	Type  string `json:"type,omitempty"` // of the ids: int unless set, see the Type constants
	Form  string `json:"form,omitempty"` // of a record: flat unless set, see the Form constants
	Order string `json:"order,omitempty"`
	Twice int    `json:"twice,omitempty"` // records that have the id of another one, with other content
	Nulls int    `json:"nulls,omitempty"` // null elements between the records
	Names bool   `json:"names,omitempty"` // each record has a name of its own; else names repeat
	Times bool   `json:"times,omitempty"` // records say when they were created and changed

	Hidden int    `json:"hidden,omitempty"` // records, from the middle of the second page on, that take their place on the pages and are not shown
	Odd    string `json:"odd,omitempty"`    // what one value of the record in the middle is, see the Odd constants
}

// Values that few tables can hold.
const (
	OddSurrogate = "surrogate" // the first half of a character
	OddTab       = "tab"       // a control character that JSON does not allow in a text
	OddDeep      = "deep"      // 201 arrays in each other
	OddID        = "id"        // the record's id is null
)

// Types of ids.
const (
	TypeInt  = ""
	TypeText = "text"
	TypeUUID = "uuid"
)

// Forms of a record.
const (
	FormFlat       = ""
	FormWrapped    = "wrapped"    // {"customer": {…}}
	FormAttributes = "attributes" // {"type": …, "id": …, "attributes": {…}}
	FormKeyed      = "keyed"      // the list is an object: the id, and the record without it
	FormNumbered   = "numbered"   // the list is an object: the id, and the record with it
	FormOne        = "one"        // there is no list: the first record stands in its place
)

// Orders of a list.
const (
	OrderOldest = ""       // by id
	OrderNewest = "newest" // by id, the largest first
	OrderChange = "change" // the latest change first
	OrderTies   = "ties"   // by a member that is not unique: each second page begins with the last record of the page before, in the place of its own first
)

// Envelope says where the records stand.
type Envelope struct {
	Path   []string                   `json:"path,omitempty"`  // members from the root to the list; empty: the body is the list
	Empty  string                     `json:"empty,omitempty"` // an empty list: [] unless set, or null or absent
	Beside map[string]json.RawMessage `json:"beside,omitempty"`
}

// Paging says how the list goes on.
type Paging struct {
	Kind   string `json:"kind"`
	Param  string `json:"param,omitempty"`
	In     string `json:"in,omitempty"`     // query unless set: body (of a POST) or header
	Base   int    `json:"base,omitempty"`   // number of the first page or record
	Beyond string `json:"beyond,omitempty"` // what lies behind the end: an empty page unless set
	Form   string `json:"form,omitempty"`   // of a token: opaque unless set: id, offset
	Bad    string `json:"bad,omitempty"`    // a token that cannot be read: 400 unless set: first, empty
	Deep   int    `json:"deep,omitempty"`   // the list goes no deeper than so many records; 0: to its end
}

// Kinds of paging.
const (
	KindPage   = "page"   // by the number of the page
	KindOffset = "offset" // by the number of the first record
	KindToken  = "token"  // by a token that the answer states
	KindKeyset = "keyset" // by the id of the last record
	KindMoment = "moment" // by when the last record was created
	KindRange  = "range"  // by the header Range
	KindWhole  = "whole"  // the list comes in one answer
	KindCap    = "cap"    // the list is cut, and nothing brings the rest
)

// What lies behind the end, or comes for a token that cannot be read.
const (
	BeyondEmpty = ""
	BeyondLast  = "last"
	BeyondFirst = "first"
	Beyond204   = "204"
	Beyond400   = "400"
	Beyond404   = "404"
)

// Size says how many records a page has.
type Size struct {
	Param   string `json:"param,omitempty"` // "" where nothing changes it
	Default int    `json:"default"`
	Max     int    `json:"max,omitempty"`  // 0: none
	Over    string `json:"over,omitempty"` // a size above Max: cut to it unless set: 400, or default
}

// Signal is one thing that an answer says beside its records.
type Signal struct {
	At   string `json:"at"`             // JSON pointer into the body, or "header NAME"
	Says string `json:"says"`           // see sayings
	As   string `json:"as,omitempty"`   // how a value is written: text, number, yesno
	End  string `json:"end,omitempty"`  // what stands there on the last page: null unless set: absent, empty, false, zero, self
	Host string `json:"host,omitempty"` // of a link: the server's own unless set; an inner one that nobody can reach

	Run   int `json:"run,omitempty"`   // from this one on; 0: in all
	Every int `json:"every,omitempty"` // on the first page and each so many pages after it; 0: on all

	Value json.RawMessage `json:"value,omitempty"` // of Says "constant"
}

// Edits are made at the source between two runs.
type Edits struct {
	Delete int `json:"delete,omitempty"`
	Change int `json:"change,omitempty"`
	Insert int `json:"insert,omitempty"`
	Rekey  int `json:"rekey,omitempty"` // records, from the end of the list, that take the ids of the first ones
	Unkey  int `json:"unkey,omitempty"` // records, from the middle of the list on, whose id is null from then on
	Swap   int `json:"swap,omitempty"`  // records, from the beginning of the list, that change and exchange their details with the last ones, which do not change
}

// Move is a change of the list while a run reads it.
type Move struct {
	Run   int    `json:"run"`   // counted from 1
	At    int    `json:"at"`    // before the answer to this request of the run, counted from 1
	Kind  string `json:"kind"`  // see the Move constants
	Count int    `json:"count"` // records
}

// Kinds of moves.
const (
	MoveDeleteFirst = "delete first"
	MoveDeleteLast  = "delete last"
	MoveInsertFirst = "insert first" // at the head of the list, whatever its order
	MoveInsertLast  = "insert last"
	MoveChange      = "change"
)

// Fault is what goes wrong in some answers.
type Fault struct {
	Kind   string `json:"kind"`
	Run    int    `json:"run,omitempty"`    // only in this one; 0: in all
	Row    int    `json:"row,omitempty"`    // strikes answers that would show the record at this place, counted from 1; 0: all answers
	Count  int    `json:"count,omitempty"`  // how often; 0: for good
	Status int    `json:"status,omitempty"` // of status: 500 unless set
	From   int    `json:"from,omitempty"`   // not before this request of the run, counted from 1
	To     int    `json:"to,omitempty"`     // and not after this one; 0: to the end of the run
	Rows   int    `json:"rows,omitempty"`   // of left out: records

	At    string          `json:"at,omitempty"`    // of partial: where the answer says that it is incomplete; as in Signal
	Value json.RawMessage `json:"value,omitempty"` // of partial: what it says there
}

// Kinds of faults.
const (
	FaultStatus  = "status"   // an error status
	FaultObject  = "object"   // 200 and one object with a message in place of the list
	FaultHalf    = "half"     // the second half of the page is missing; everything else is as it was
	FaultPartial = "partial"  // each third record is missing, and the answer says that it is incomplete
	FaultEmptied = "emptied"  // 200 and an empty list; everything else is as it was
	FaultMoved   = "moved"    // the list stands under another member
	FaultDetail  = "detail"   // status 403 in place of a detail; From and To count the requests for details
	FaultLeftOut = "left out" // the list is served as if so many records, from Row on, were not in it
	FaultCached  = "cached"   // the answer is the one that the same request had in the run before, and its header Age says so
)
