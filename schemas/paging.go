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

// Role is what a scalar beside the records of a list says.
type Role string

// The roles. What has none is unexplained.
const (
	RoleTotal     Role = "total"     // records in all
	RoleCount     Role = "count"     // records in all, or those at hand
	RoleHere      Role = "here"      // records at hand
	RolePages     Role = "pages"     // number of pages, or of the last one
	RolePage      Role = "page"      // number of this page
	RoleOffset    Role = "offset"    // place of this page's first record
	RoleSize      Role = "size"      // records a page holds at most
	RoleMore      Role = "more"      // true: there are more records
	RoleLast      Role = "last"      // true: there are no more records
	RoleRemaining Role = "remaining" // records after this page
	RoleNext      Role = "next"      // link, token or number of the next page
	RoleToken     Role = "token"     // token of the next page, among others of its kind
	RoleOther     Role = "other"     // another way than to the next page
	RolePartial   Role = "partial"   // true: the answer is not whole
	RoleComplete  Role = "complete"  // false: the answer is not whole
	RoleState     Role = "state"     // a word that may say so
	RoleFaults    Role = "faults"    // what went wrong
	RoleConstant  Role = "constant"  // nothing about more records
)

// The families of parameters by which a list goes on.
const (
	ParamPage    = "page"    // number of the page
	ParamOffset  = "offset"  // place of the page's first record
	ParamSince   = "since"   // id of the last record
	ParamLater   = "later"   // time of the last record, of a list with the oldest first
	ParamEarlier = "earlier" // the same, with the newest first
	ParamRecord  = "record"  // value of another member of the last record
	ParamChange  = "change"  // time of the last change: older records are left out; %s is the field
	ParamToken   = "token"   // token of the answer
	ParamLink    = "link"    // what usually leads on in the address of the next page
	ParamSize    = "size"    // records a page holds at most
)

// Vocabulary is what the words beside the records of a list mean, and by which
// parameters lists go on. It is read-only and safe for concurrent use. Names are
// compared folded (see [FoldName]) unless a method says otherwise; callers must not
// change the slices that it returns.
type Vocabulary struct {
	file       vocabularyFile
	roles      map[string]Role
	headers    map[string]Role
	states     map[string]bool
	beside     map[string]bool
	ignored    map[string]bool
	parameters map[string]map[string]bool // folded, by family
}

// vocabularyFile is paging/vocabulary.yaml, which describes each list.
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
	Parameters      map[string][]string
	Sorts           []string
	TokenParameters map[string][]string `yaml:"token_parameters"`
	PageObjects     []string            `yaml:"page_objects"`
	Headers         map[Role][]string
	HeaderParts     struct{ Paging, Other []string } `yaml:"header_parts"`
	Sandbox         map[string][]string
}

// Paging returns the vocabulary that is compiled in. A fault in it is one of the
// program, which its tests find; Paging panics then.
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

// Role is what a member of this name says; "" for a name without a role.
func (v *Vocabulary) Role(name string) Role { return v.roles[FoldName(name)] }

// HeaderRole is what a header of this name says; "" for a name without a role.
func (v *Vocabulary) HeaderRole(name string) Role { return v.headers[foldHeader(name)] }

var folding = strings.NewReplacer("_", "", "-", "", ".", "", ":", "", "$", "", "@", "", "[", "", "]", "", " ", "")

// FoldName is a name without what APIs differ in: page[size], page_size, pageSize
// and $PageSize are one, and so are nextLink and @odata.nextLink.
func FoldName(name string) string {
	name = folding.Replace(strings.ToLower(name))
	for _, prefix := range []string{"odata", "hydra", "opensearch"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			return rest
		}
	}
	return name
}

// foldHeader is the folded name of a header without the prefixes of vendors.
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
