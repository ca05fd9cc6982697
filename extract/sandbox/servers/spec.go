// Package servers simulates list endpoints. A [Spec] describes an endpoint as data: where an answer has its records,
// how the list is paged, which signals the answers have, and which faults occur. A [List] serves one Spec over HTTP.
// It knows the truth: the records that a complete reading must give. [Draw] makes a Spec from a seed.
//
// The sandbox serves the named Specs. Generated tests serve Specs that Draw makes.
package servers

import "encoding/json"

// Spec describes one list and its protocol. It can be stored as JSON.
type Spec struct {
	Seed     uint64   `json:"seed,omitempty"`   // seed of Draw; 0 if Draw did not make the Spec
	Method   string   `json:"method,omitempty"` // default GET
	Records  Records  `json:"records"`
	Envelope Envelope `json:"envelope"`
	Paging   Paging   `json:"paging"`
	Size     Size     `json:"size"`
	Signals  []Signal `json:"signals,omitempty"`
	Unknown  string   `json:"unknown,omitempty"` // UnknownRefuse, UnknownFilter, or "" to ignore unknown parameters
	Edits    Edits    `json:"edits"`
	Moves    []Move   `json:"moves,omitempty"`
	Faults   []Fault  `json:"faults,omitempty"`
	Reader   Reader   `json:"reader,omitzero"`
}

// Reader says what a reader does, besides reading the list.
type Reader struct {
	Since   string `json:"since,omitempty"`   // parameter with a time, for incremental readings: answers lack the records that did not change since then
	Twin    bool   `json:"twin,omitempty"`    // another stream serves the same records, without the faults
	Details bool   `json:"details,omitempty"` // each record has a detail at its own address, and the reader requests it
	Confirm bool   `json:"confirm,omitempty"` // the user confirms that the table may shrink
}

// How the server handles unknown parameters, if it does not ignore them.
const (
	UnknownRefuse = "refuse" // answers 400
	UnknownFilter = "filter" // treats the parameter as a filter that no record matches
)

// Records describes the records of the list.
type Records struct {
	Count int    `json:"count"`
	Key   string `json:"key,omitempty"`  // member with the id; "": none
	Type  string `json:"type,omitempty"` // type of the ids, one of the Type constants
	Form  string `json:"form,omitempty"` // form of a record, one of the Form constants
	Order string `json:"order,omitempty"`
	Twice int    `json:"twice,omitempty"` // number of records that have the id of another record, but other content
	Nulls int    `json:"nulls,omitempty"` // number of null elements between the records
	Names bool   `json:"names,omitempty"` // each record has a unique name; otherwise names repeat
	Times bool   `json:"times,omitempty"` // records have their creation and change times

	Hidden int    `json:"hidden,omitempty"` // number of records that are not shown, although paging counts them; they begin in the middle of page 2
	Odd    string `json:"odd,omitempty"`    // unusual value in the middle record: see the Odd constants
}

// Values that few tables can store.
const (
	OddSurrogate = "surrogate" // half of a surrogate pair
	OddTab       = "tab"       // a raw tab, which JSON does not allow in strings
	OddDeep      = "deep"      // 201 nested arrays
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
	FormKeyed      = "keyed"      // the list is an object: the ids are the names of its members, and the records have no id
	FormNumbered   = "numbered"   // like FormKeyed, but the records also have their id
	FormOne        = "one"        // the answer has the first record instead of the list
)

// Orders of a list.
const (
	OrderOldest = ""       // by id
	OrderNewest = "newest" // by id, the largest first
	OrderChange = "change" // the latest change first
	OrderTies   = "ties"   // by a member with equal values: every second page repeats the last record of the page before, and lacks its own first record
)

// Envelope says where the records are in the body.
type Envelope struct {
	Path   []string                   `json:"path,omitempty"`  // members from the root to the list; empty: the body is the list
	Empty  string                     `json:"empty,omitempty"` // form of an empty list
	Beside map[string]json.RawMessage `json:"beside,omitempty"`
}

// Paging says how the list is paged.
type Paging struct {
	Kind   string `json:"kind"`
	Param  string `json:"param,omitempty"`
	In     string `json:"in,omitempty"`     // place of the parameter: body, header, or "" for the query
	Base   int    `json:"base,omitempty"`   // number of the first page or record
	Beyond string `json:"beyond,omitempty"` // answer after the end: see the Beyond constants
	Form   string `json:"form,omitempty"`   // form of a token: id, offset, or "" for opaque
	Bad    string `json:"bad,omitempty"`    // answer to an invalid token: first, empty, or "" for 400
	Deep   int    `json:"deep,omitempty"`   // how many records can be reached; 0: all
}

// Kinds of paging.
const (
	KindPage   = "page"   // by page number
	KindOffset = "offset" // by the index of the first record
	KindToken  = "token"  // by a token from the answer
	KindKeyset = "keyset" // by the id of the last record
	KindMoment = "moment" // by the creation time of the last record
	KindRange  = "range"  // by the Range header
	KindWhole  = "whole"  // all in one answer
	KindCap    = "cap"    // one answer with the first records; the others cannot be reached
)

// Answers after the end, or to an invalid token.
const (
	BeyondEmpty = ""
	BeyondLast  = "last"
	BeyondFirst = "first"
	Beyond204   = "204"
	Beyond400   = "400"
	Beyond404   = "404"
)

// Size is the number of records on a page.
type Size struct {
	Param   string `json:"param,omitempty"` // size parameter; "": none
	Default int    `json:"default"`
	Max     int    `json:"max,omitempty"`  // largest size; 0: no limit
	Over    string `json:"over,omitempty"` // answer to a size above Max: 400, default, or "" for Max records
}

// Signal is one value of an answer beside its records.
type Signal struct {
	At   string `json:"at"`             // JSON pointer into the body, or "header NAME"
	Says string `json:"says"`           // its meaning: see sayings
	As   string `json:"as,omitempty"`   // encoding of the value: text, number, yesno
	End  string `json:"end,omitempty"`  // value on the last page: absent, empty, false, zero, self, or "" for null
	Host string `json:"host,omitempty"` // host of a link: inner (unreachable), relative (none), or "" for the server's own

	Run   int `json:"run,omitempty"`   // the signal occurs from this run on; 0: in all runs
	Every int `json:"every,omitempty"` // 3: the signal is on the first, fourth, seventh page …; 0: on all pages

	Value json.RawMessage `json:"value,omitempty"` // value if Says is "constant"
}

// Edits are changes of the source between two runs.
type Edits struct {
	Delete int `json:"delete,omitempty"`
	Change int `json:"change,omitempty"`
	Insert int `json:"insert,omitempty"`
	Rekey  int `json:"rekey,omitempty"` // number of records at the end of the list that get the ids of the first records
	Unkey  int `json:"unkey,omitempty"` // number of records that lose their id, beginning in the middle of the list
	Swap   int `json:"swap,omitempty"`  // this many of the first records change; each swaps its detail with one of the last records, which do not change
}

// Move is a change of the list during a run.
type Move struct {
	Run   int    `json:"run"`   // number of the run, from 1
	At    int    `json:"at"`    // the list changes before the answer to this request of the run, counted from 1
	Kind  string `json:"kind"`  // see the Move constants
	Count int    `json:"count"` // number of records
}

// Kinds of moves.
const (
	MoveDeleteFirst = "delete first"
	MoveDeleteLast  = "delete last"
	MoveInsertFirst = "insert first" // at the beginning of the list, in any order
	MoveInsertLast  = "insert last"
	MoveChange      = "change"
)

// Fault is a failure of some answers.
type Fault struct {
	Kind   string `json:"kind"`
	Run    int    `json:"run,omitempty"`    // the only run with the fault; 0: all runs
	Row    int    `json:"row,omitempty"`    // the fault is only in answers with the record at this position, from 1; 0: in all answers
	Count  int    `json:"count,omitempty"`  // how often the fault occurs; 0: always
	Status int    `json:"status,omitempty"` // if Kind is FaultStatus: the HTTP status; default 500
	From   int    `json:"from,omitempty"`   // the fault begins with this request of a run, counted from 1
	To     int    `json:"to,omitempty"`     // the fault ends after this request of a run; 0: it does not end
	Rows   int    `json:"rows,omitempty"`   // if Kind is FaultLeftOut: how many records are left out

	At    string          `json:"at,omitempty"`    // if Kind is FaultPartial: where the answer says that it is incomplete, as in Signal.At
	Value json.RawMessage `json:"value,omitempty"` // if Kind is FaultPartial: the value at At, for example true
}

// Kinds of faults.
const (
	FaultStatus  = "status"   // an error status
	FaultObject  = "object"   // 200 and an object with a message instead of the list
	FaultHalf    = "half"     // the second half of the page is missing; the rest is unchanged
	FaultPartial = "partial"  // every third record is missing, and the answer says that it is incomplete
	FaultEmptied = "emptied"  // 200 and an empty list; the rest is unchanged
	FaultMoved   = "moved"    // the list is in another member
	FaultDetail  = "detail"   // 403 instead of a detail; From and To count only the requests for details
	FaultLeftOut = "left out" // Rows records, from Row on, are missing from the list
	FaultCached  = "cached"   // the same answer as in the run before, with an Age header
)
