package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// moduleRoot is the root of the module, relative to this package.
const moduleRoot = "../.."

// pages returns the Markdown files of the project, by path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(moduleRoot, path)
		all[name] = string(text)
		return err
	}
	for _, folder := range []string{"docs", "cmd/penstock/deploy"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(moduleRoot, folder), add))
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"} {
		text, err := os.ReadFile(filepath.Join(moduleRoot, name))
		require.NoError(t, err)
		all[name] = string(text)
	}
	return all
}

// TestLinksLeadSomewhere checks that each relative link of each page leads to an existing file and heading.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	all := pages(t)
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			_, err := os.Stat(filepath.Join(moduleRoot, target))
			require.NoError(t, err, "%s links to %s", name, m[1])
			if m[2] != "" {
				require.Contains(t, anchors(all[target]), m[2], "%s links to %s%s", name, m[1], m[2])
			}
		}
	}
}

// anchors returns the headings of a page in the form that links use, for example #add-a-stream.
func anchors(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, "#"+strings.ReplaceAll(plain, " ", "-"))
	}
	return out
}

// TestReadmeIsShort limits the size of the README, so that newcomers read all of it.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, len(pages(t)["README.md"]), 9000)
}

// TestInvariants compares the invariants of docs/ARCHITECTURE.md with the comments that cite them: each file
// named on the page cites its invariant, and each cited invariant is on the page.
func TestInvariants(t *testing.T) {
	t.Parallel()
	cited := citations(t)
	row := regexp.MustCompile(`(?m)^\| (\d+) \| \*\*.*\| ([^|]+) \|$`)
	listed := map[int]bool{}
	for _, m := range row.FindAllStringSubmatch(pages(t)["docs/ARCHITECTURE.md"], -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		listed[n] = true
		for _, file := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m[2], -1) {
			require.Contains(t, cited[file[1]], n, "%s does not cite invariant %d", file[1], n)
		}
	}
	require.Len(t, listed, 18)
	for file, numbers := range cited {
		for _, n := range numbers {
			require.True(t, listed[n], "%s cites invariant %d, which is not on the page", file, n)
		}
	}
}

// citations returns the invariants that each file's comments cite.
func citations(t *testing.T) map[string][]int {
	t.Helper()
	cite := regexp.MustCompile(`Invariants?\s+(\d+(?:(?:,| and|, and)\s+\d+)*)`)
	all := map[string][]int{}
	eachGoFile(t, func(path, text string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		require.NoError(t, err)
		for _, c := range f.Comments {
			for _, m := range cite.FindAllStringSubmatch(c.Text(), -1) {
				for _, digits := range regexp.MustCompile(`\d+`).FindAllString(m[1], -1) {
					n, err := strconv.Atoi(digits)
					require.NoError(t, err)
					all[path] = append(all[path], n)
				}
			}
		}
	})
	return all
}

// eachGoFile calls f with each Go file of the module, by path from the root.
func eachGoFile(t *testing.T, f func(path, text string)) {
	t.Helper()
	for _, folder := range []string{"cmd", "extract", "load", "schemas", "state", "transform"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(moduleRoot, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(moduleRoot, path)
			f(filepath.ToSlash(name), string(text))
			return err
		}))
	}
}

// TestTroubleshootingMessages searches the program's source for each message of docs/troubleshooting.md. If a message
// has ellipses (…), it searches for each part between them.
func TestTroubleshootingMessages(t *testing.T) {
	t.Parallel()
	var program strings.Builder
	eachGoFile(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			program.WriteString(text)
		}
	})
	_, table, _ := strings.Cut(pages(t)["docs/troubleshooting.md"], "## By message")
	found := 0
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(table, -1) {
		for _, message := range codeSpan.FindAllStringSubmatch(row[1], -1) {
			if _, err := strconv.Atoi(message[1]); err == nil {
				continue // an HTTP status
			}
			for part := range strings.SplitSeq(message[1], "…") {
				if part = strings.Trim(part, ":; "); part != "" {
					found++
					require.True(t, strings.Contains(program.String(), part), "%q", message[1])
				}
			}
		}
	}
	require.Greater(t, found, 5)
}

// TestDependenciesAreExplained compares docs/dependencies.md with the direct dependencies of go.mod.
func TestDependenciesAreExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(moduleRoot, "go.mod"))
	require.NoError(t, err)
	mod, err := modfile.Parse("go.mod", text, nil)
	require.NoError(t, err)
	var direct, explained []string
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Mod.Path)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(pages(t)["docs/dependencies.md"], -1) {
		explained = append(explained, m[1])
	}
	require.ElementsMatch(t, direct, explained)
}

// TestContributeDestination checks that existing destinations follow "Add a destination" in CONTRIBUTING.md. Each
// package that implements load.Destination must run the conformance suite, and must be in the table of destinations.
func TestContributeDestination(t *testing.T) {
	t.Parallel()
	guide := pages(t)["CONTRIBUTING.md"]
	implements, tested, texts := map[string]bool{}, map[string]bool{}, map[string]string{}
	eachGoFile(t, func(path, text string) {
		folder := filepath.Base(filepath.Dir(path))
		if strings.Contains(path, "load/") && folder != "loadtest" && regexp.MustCompile(`(?m)^var _ load\.Destination = |\n\t_ load\.Destination += `).MatchString(text) {
			implements[folder] = true
		}
		if strings.HasSuffix(path, "_test.go") && strings.Contains(text, "loadtest.Run(") {
			tested[folder] = true
		}
		if strings.Contains(path, "cmd/penstock/") {
			texts[filepath.Base(path)] = text
		}
	})
	for _, promised := range []string{"load.Destination", "load.Tx", "loadtest.Run", "cmd/penstock/destinations.go"} {
		require.Contains(t, guide, "`"+promised+"`")
	}
	require.GreaterOrEqual(t, len(implements), 3, "%v", implements)
	for folder := range implements {
		require.True(t, tested[folder], "load/%s does not run the conformance suite", folder)
		require.Regexp(t, `(?s)func destinationKinds\(\).*?\b`+folder+`Kind\(`, texts["destinations.go"])
	}
}

// TestGuidesNameFiles checks that each path in code font of CONTRIBUTING.md and ARCHITECTURE.md exists.
func TestGuidesNameFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"CONTRIBUTING.md", "docs/ARCHITECTURE.md"} {
		for _, m := range regexp.MustCompile("`([a-z]+/[a-zA-Z0-9_/.*-]+)`").FindAllStringSubmatch(pages(t)[name], -1) {
			found, err := filepath.Glob(filepath.Join(moduleRoot, m[1]))
			require.NoError(t, err)
			require.NotEmpty(t, found, "%s names %s", name, m[1])
		}
	}
}
