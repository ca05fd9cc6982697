package schemas

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed paging/vocabulary.yaml
var vocabulary []byte

// Role is the meaning of a scalar beside the records of a list's answer.
type Role string

// The roles. The meaning of a scalar without a role is unknown.
const (
	RoleTotal     Role = "total"     // number of records in the list
	RoleCount     Role = "count"     // number of records in the list or on the page
	RoleHere      Role = "here"      // number of records on the page
	RolePages     Role = "pages"     // number of pages, or number of the last page
	RolePage      Role = "page"      // number of this page
	RoleOffset    Role = "offset"    // index of the page's first record
	RoleSize      Role = "size"      // page size
	RoleMore      Role = "more"      // true: there are more records
	RoleLast      Role = "last"      // true: there are no more records
	RoleRemaining Role = "remaining" // records after this page
	RoleNext      Role = "next"      // link, token or number of the next page
	RoleToken     Role = "token"     // token of the next page; ignored if it is a number at the top level of the answer
	RoleOther     Role = "other"     // a link to a page other than the next
	RolePartial   Role = "partial"   // if it is true, the answer is incomplete
	RoleComplete  Role = "complete"  // if it is false, the answer is incomplete
	RoleState     Role = "state"     // a word that may say that the answer is incomplete
	RoleFaults    Role = "faults"    // list or text of errors; if it is not empty, the answer is incomplete
	RoleConstant  Role = "constant"  // unrelated to paging
)

// The meanings of paging parameters. A type of paging has the same name as the meaning of its main parameter.
const (
	ParamPage    = "page"     // number of the page
	ParamOffset  = "offset"   // index of the page's first record
	ParamSince   = "since_id" // id of the last record
	ParamLater   = "later"    // time of the last record, if the oldest comes first
	ParamEarlier = "earlier"  // time of the last record, if the newest comes first
	ParamRecord  = "record"   // value of another member of the last record
	// ParamChange is a time. The source leaves out records that have not changed since this time. In the name of such a
	// parameter, %s stands for the name of the field with the time of change.
	ParamChange = "change"
	ParamToken  = "cursor" // token from the answer
	ParamLink   = "link"   // parameters that next links usually contain
	ParamSize   = "size"   // page size
)

// Vocabulary contains the words that list answers use beside the records, and the parameters of paging. It is
// immutable and safe for concurrent use. Names are compared in folded form (see [FoldName]) unless a method says
// otherwise. Callers must not change the lists.
type Vocabulary struct {
	Words
	roles      map[string]Role
	headers    map[string]Role
	parameters map[string]map[string]bool // folded, by meaning
}

// Names is a list of names, the usual ones first.
type Names []string

// Words are the lists of vocabulary.yaml.
type Words struct {
	Roles   map[Role][]string
	Headers map[Role][]string

	States    Names // words that say that the answer is incomplete: {"status": "partial"}
	Beside    Names // names of objects about paging: {"data": […], "meta": {…}}
	Ignored   Names // names of objects beside the records that say nothing about the list
	Relations Names // relations of links that do not lead to the next page: prev, first, last

	// Links has the members of a link: its relation, such as rel, its target, such as href, and the members that show
	// that an object is a link.
	Links struct{ Relation, Target, Marks Names }

	// Addresses is about the address of the next page. If the answer has an object for the next page, such as {"next":
	// {"href": …}}, one of Members holds the address. If a name contains one of Parts, as nextPageUrl does, its value is
	// an address.
	Addresses struct{ Members, Parts Names }

	// Totals is about totals that are objects, such as {"value": 10000, "relation": "gte"}. One of Members holds the
	// number. LowerBounds are the relations that mean "at least".
	Totals struct {
		Members     Names
		LowerBounds Names `yaml:"lower_bounds"`
	}
	PageCounts    Names `yaml:"page_counts"` // beside such a member, "number" and "size" are the page number and the page size
	NoTokens      Names `yaml:"no_token"`
	FirstTokens   Names `yaml:"first_tokens"`
	EstimateParts Names `yaml:"estimates"`
	Continuation  struct {
		Parts, Without Names
		NotFirst       Names `yaml:"not_first"`
	}
	NotCounts       struct{ Last, Anywhere Names } `yaml:"not_counts"`
	Lists           Names                          // members that usually hold the records
	Wrappers        Names                          // members that usually hold the payload
	NoRecords       struct{ Names, First Names }   `yaml:"not_records"`
	ListTypes       struct{ Members, Parts Names } `yaml:"list_types"`       // members in which an object states its type
	ListMembers     Names                          `yaml:"list_members"`     // members that mark an object with an id as a list
	EnvelopeMembers Names                          `yaml:"envelope_members"` // members that mark an object without an id as an envelope around the payload
	EnvelopeWords   Names                          `yaml:"envelope_words"`   // members that are common beside the records and unrelated to paging
	Fields          struct {
		Keys, Labels          Names // fields that identify records, and fields that often identify them
		Times, Changed, Money Names
		Created               Names
	}
	RecordTokens Names `yaml:"record_tokens"` // members of the last record whose value may be the token of the next page

	PagerTypes []struct {
		Type       string
		Parameters Names
	} `yaml:"pagers"`
	Meanings    map[string]Names              `yaml:"parameters"`
	Sorts       Names                         // query parameters that request an order; %s stands for the field
	SentTokens  map[string]Names              `yaml:"token_parameters"`
	PageObjects Names                         `yaml:"page_objects"` // paging objects; a token in one may also be sent as page[cursor]
	HeaderParts struct{ Paging, Other Names } `yaml:"header_parts"`

	// Sandbox has the names from which the sandbox chooses at random, by kind. Common names are repeated, so that the
	// sandbox chooses them more often.
	Sandbox map[string]Names
}

// Paging returns the embedded vocabulary. It panics if the vocabulary is invalid. Tests make sure that it is valid.
var Paging = sync.OnceValue(func() *Vocabulary {
	v, err := parseVocabulary(vocabulary)
	if err != nil {
		panic(err)
	}
	return v
})

func parseVocabulary(text []byte) (*Vocabulary, error) {
	v := &Vocabulary{roles: map[string]Role{}, headers: map[string]Role{}, parameters: map[string]map[string]bool{}}
	if err := decode(text, &v.Words); err != nil {
		return nil, fmt.Errorf("read paging vocabulary: %w", err)
	}
	for _, p := range v.PagerTypes {
		v.Meanings[p.Type] = p.Parameters
	}
	for meaning, names := range v.Meanings {
		v.parameters[meaning] = map[string]bool{}
		for _, name := range names {
			v.parameters[meaning][FoldName(name)] = true
		}
	}
	for _, names := range []Names{v.States, v.Beside, v.Ignored} {
		for i, name := range names {
			names[i] = FoldName(name)
		}
	}
	for _, table := range []struct {
		from map[Role][]string
		to   map[string]Role
	}{{v.Roles, v.roles}, {v.Headers, v.headers}} {
		for role, words := range table.from {
			for _, w := range words {
				if other, ok := table.to[FoldName(w)]; ok && other != role {
					return nil, fmt.Errorf("read paging vocabulary: %q has the roles %s and %s", w, other, role)
				}
				table.to[FoldName(w)] = role
			}
		}
	}
	return v, nil
}

// Has reports whether the list contains the given name in some spelling; see [FoldName].
func (n Names) Has(name string) bool { return slices.Contains(n, FoldName(name)) }

// Role returns the role of a member with this name, or "".
func (v *Vocabulary) Role(name string) Role { return v.roles[FoldName(name)] }

// HeaderRole returns the role of a header with this name, or "".
func (v *Vocabulary) HeaderRole(name string) Role { return v.headers[foldHeader(name)] }

var folding = strings.NewReplacer("_", "", "-", "", ".", "", ":", "", "$", "", "@", "", "[", "", "]", "", " ", "")

// FoldName returns the common form of the spellings of a name. For example, page[size], page_size, pageSize and
// $PageSize have the same form. nextLink and @odata.nextLink also have the same form.
func FoldName(name string) string {
	name = folding.Replace(strings.ToLower(name))
	for _, prefix := range []string{"odata", "hydra", "opensearch"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return rest
		}
	}
	return name
}

func foldHeader(name string) string {
	name = strings.ToLower(name)
	for _, prefix := range []string{"x-ms-", "x-"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			name = rest
			break
		}
	}
	return FoldName(name)
}
