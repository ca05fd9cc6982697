package schemas

import (
	_ "embed"
	"fmt"
	"slices"
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
	ParamPage   = "page"
	ParamOffset = "offset"
	ParamSince  = "since"
	ParamToken  = "token"
	ParamSize   = "size"
)

// Vocabulary is what the words beside the records of a list mean, and by which
// parameters lists go on. It is read-only and safe for concurrent use.
type Vocabulary struct {
	roles      map[string]Role
	headers    map[string]Role
	states     map[string]bool
	beside     map[string]bool
	ignored    map[string]bool
	lists      []string
	wrappers   []string
	parameters map[string][]string
	folded     map[string]map[string]bool // of parameters
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
	var file struct {
		Roles      map[Role][]string
		States     []string
		Beside     []string
		Ignored    []string
		Lists      []string
		Wrappers   []string
		Parameters map[string][]string
		Headers    map[Role][]string
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("read paging vocabulary: %w", err)
	}
	v := &Vocabulary{
		roles: map[string]Role{}, headers: map[string]Role{}, lists: file.Lists, wrappers: file.Wrappers,
		states: set(file.States), beside: set(file.Beside), ignored: set(file.Ignored),
		parameters: file.Parameters, folded: map[string]map[string]bool{},
	}
	for family, names := range file.Parameters {
		v.folded[family] = set(names)
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

// Role is what a member of this name says; "" where nobody knows.
func (v *Vocabulary) Role(name string) Role { return v.roles[FoldName(name)] }

// HeaderRole is what a header of this name says; "" where nobody knows.
func (v *Vocabulary) HeaderRole(name string) Role { return v.headers[foldHeader(name)] }

// Incomplete reports whether a word says that an answer is not whole.
func (v *Vocabulary) Incomplete(word string) bool { return v.states[FoldName(word)] }

// Beside reports whether an object of this name beside the records speaks of pages.
func (v *Vocabulary) Beside(name string) bool { return v.beside[FoldName(name)] }

// Ignored reports whether an object of this name beside the records says nothing of
// the list.
func (v *Vocabulary) Ignored(name string) bool { return v.ignored[FoldName(name)] }

// Lists are the usual names of the member that holds the records, and Wrappers
// those of the member that holds the payload, in the order in which they are tried.
func (v *Vocabulary) Lists() []string { return v.lists }

// Wrappers is described with [Vocabulary.Lists].
func (v *Vocabulary) Wrappers() []string { return v.wrappers }

// Parameters are the request parameters of one family, the usual ones first. The
// caller must not change them.
func (v *Vocabulary) Parameters(family string) []string { return v.parameters[family] }

// Parameter reports whether a request parameter of this name belongs to a family,
// however it is spelled.
func (v *Vocabulary) Parameter(family, name string) bool { return v.folded[family][FoldName(name)] }

// Spellings are the parameters of a family whose folded name is that of name, the
// usual ones first.
func (v *Vocabulary) Spellings(family, name string) []string {
	word := FoldName(name)
	return slices.DeleteFunc(slices.Clone(v.parameters[family]), func(p string) bool { return FoldName(p) != word })
}

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
