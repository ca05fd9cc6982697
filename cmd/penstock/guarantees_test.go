package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGuaranteesNameTests checks that each test that the README's guarantees name exists in exactly one package. A name
// that several packages use has the name of its package in front. CI runs the short form of the named tests, so neither
// the tests nor the functions that they use may skip, except for the reasons in missingOnSomeMachines.
func TestGuaranteesNameTests(t *testing.T) {
	t.Parallel()
	packages := testFunctions(t)
	_, guarantees, _ := strings.Cut(pages(t)["README.md"], "## Guarantees")
	rows := 0
	for line := range strings.Lines(guarantees) {
		named := regexp.MustCompile("`(?:(\\w+)\\.)?(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(named) > 0 {
			rows++
		}
		for _, m := range named {
			var found []string
			for folder, functions := range packages {
				if functions[m[2]] != nil && (m[1] == "" || m[1] == filepath.Base(folder)) {
					found = append(found, folder)
				}
			}
			require.Len(t, found, 1, "packages with the test %s", m[0])
			for _, reason := range skips(packages[found[0]], m[2], map[string]bool{}) {
				require.Contains(t, missingOnSomeMachines, reason, "%s skips itself", m[0])
			}
		}
	}
	require.Positive(t, rows)
	require.LessOrEqual(t, rows, 12)
}

// missingOnSomeMachines are reasons to skip a test of a guarantee. The machine that runs .ci/run is root on Linux, and
// .ci/setup and .ci/servers install what these tests need. .ci/run also runs `make crash`.
var missingOnSomeMachines = []string{
	"run by make crash",
	"strace is not installed",
	"only root can mount a small file system",
	"mount a small file system: %v",
	"this process may not mount: %v",
	"PENSTOCK_TEST_SERVERS does not name a folder with servers; `make servers` makes this folder",
	"%s could not be fetched: no %s",
	"needs node",
}

// testFunctions returns the functions of all test files, by folder and name. Files for different systems may have
// functions with the same name.
func testFunctions(t *testing.T) map[string]map[string][]*ast.FuncDecl {
	t.Helper()
	packages := map[string]map[string][]*ast.FuncDecl{}
	eachGoFile(t, func(path, text string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		folder := filepath.Dir(path)
		if packages[folder] == nil {
			packages[folder] = map[string][]*ast.FuncDecl{}
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Body != nil {
				packages[folder][fn.Name.Name] = append(packages[folder][fn.Name.Name], fn)
			}
		}
	})
	return packages
}

// skips returns the reasons for which a function, or a function of the same package that it uses, skips a test. The
// parameter `seen` has the names of functions whose reasons are known.
func skips(functions map[string][]*ast.FuncDecl, name string, seen map[string]bool) (reasons []string) {
	if seen[name] {
		return nil
	}
	seen[name] = true
	for _, fn := range functions[name] {
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				reasons = append(reasons, skips(functions, n.Name, seen)...)
			case *ast.CallExpr:
				called, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, called.Sel.Name) {
					break
				}
				reason := ""
				if len(n.Args) > 0 {
					if text, ok := n.Args[0].(*ast.BasicLit); ok {
						reason, _ = strconv.Unquote(text.Value)
					}
				}
				reasons = append(reasons, reason)
			}
			return true
		})
	}
	return reasons
}
