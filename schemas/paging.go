package schemas

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
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
	RolePartial   Role = "partial"   // true: the answer is incomplete
	RoleComplete  Role = "complete"  // false: the answer is incomplete
	RoleState     Role = "state"     // a word that may say that the answer is incomplete
	RoleFaults    Role = "faults"    // list or text of errors; if it is not empty, the answer is incomplete
	RoleConstant  Role = "constant"  // unrelated to paging
)

// The families of paging parameters. All parameters of a family have the same meaning. Each type of paging is a family.
const (
	ParamPage    = "page"     // number of the page
	ParamOffset  = "offset"   // index of the page's first record
	ParamSince   = "since_id" // id of the last record
	ParamLater   = "later"    // time of the last record, if the oldest comes first
	ParamEarlier = "earlier"  // time of the last record, if the newest comes first
	ParamRecord  = "record"   // value of another member of the last record
	// A time: records last changed before it are left out. %s in a name stands for the field with the time of change.
	ParamChange = "change"
	ParamToken  = "cursor" // token from the answer
	ParamLink   = "link"   // parameters that next links usually contain
	ParamSize   = "size"   // page size
)

// Vocabulary contains the words that list answers use beside the records, and the parameters of paging. It is
// immutable and safe for concurrent use. Names are compared in folded form (see [FoldName]) unless a method says
// otherwise. Callers must not change returned slices.
type Vocabulary struct {
	file       vocabularyFile
	roles      map[string]Role
	headers    map[string]Role
	states     map[string]bool
	beside     map[string]bool
	ignored    map[string]bool
	parameters map[string]map[string]bool // folded, by family
}

type vocabularyFile struct {
	Roles     map[Role][]string `yaml:"roles"`
	States    []string          `yaml:"states"`
	Beside    []string          `yaml:"beside"`
	Ignored   []string          `yaml:"ignored"`
	Relations []string          `yaml:"relations"`
	Links     struct{ Relation, Target, Marks []string }
	Addresses struct{ Members, Parts []string }
	Totals    struct {
		Members     []string
		LowerBounds []string `yaml:"lower_bounds"`
	}
	PageCounts   []string `yaml:"page_counts"`
	NoToken      []string `yaml:"no_token"`
	FirstTokens  []string `yaml:"first_tokens"`
	Estimates    []string
	Continuation struct {
		Parts, Without []string
		NotFirst       []string `yaml:"not_first"`
	}
	NotCounts       struct{ Last, Anywhere []string } `yaml:"not_counts"`
	Lists           []string
	Wrappers        []string
	NotRecords      struct{ Names, First []string }   `yaml:"not_records"`
	ListTypes       struct{ Members, Parts []string } `yaml:"list_types"`
	ListMembers     []string                          `yaml:"list_members"`
	EnvelopeMembers []string                          `yaml:"envelope_members"`
	EnvelopeWords   []string                          `yaml:"envelope_words"`
	Fields          struct{ Keys, Labels, Times, Changed, Created, Money []string }
	RecordTokens    []string `yaml:"record_tokens"`
	Pagers          []struct {
		Type       string
		Parameters []string
	}
	Parameters      map[string][]string
	Sorts           []string
	TokenParameters map[string][]string `yaml:"token_parameters"`
	PageObjects     []string            `yaml:"page_objects"`
	Headers         map[Role][]string
	HeaderParts     struct{ Paging, Other []string } `yaml:"header_parts"`
	Sandbox         map[string][]string
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
	var file vocabularyFile
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read paging vocabulary: %w", err)
	}
	v := &Vocabulary{
		file: file, roles: map[string]Role{}, headers: map[string]Role{},
		states: set(file.States), beside: set(file.Beside), ignored: set(file.Ignored), parameters: map[string]map[string]bool{},
	}
	for _, p := range file.Pagers {
		file.Parameters[p.Type] = p.Parameters
	}
	for family, names := range file.Parameters {
		v.parameters[family] = set(names)
	}
	for _, table := range []struct {
		from map[Role][]string
		to   map[string]Role
	}{{file.Roles, v.roles}, {file.Headers, v.headers}} {
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

func set(words []string) map[string]bool {
	all := make(map[string]bool, len(words))
	for _, w := range words {
		all[FoldName(w)] = true
	}
	return all
}

// Role returns the role of a member with this name, or "".
func (v *Vocabulary) Role(name string) Role { return v.roles[FoldName(name)] }

// HeaderRole returns the role of a header with this name, or "".
func (v *Vocabulary) HeaderRole(name string) Role { return v.headers[foldHeader(name)] }

var folding = strings.NewReplacer("_", "", "-", "", ".", "", ":", "", "$", "", "@", "", "[", "", "]", "", " ", "")

// FoldName returns the common form of the spellings of a name. page[size], page_size, pageSize and $PageSize have the
// same form, and so do nextLink and @odata.nextLink.
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
