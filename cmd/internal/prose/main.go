// Prose lists sentences that have too many words, or a word for which there is a plainer word. It reads Go comments and
// messages, Markdown, HTML templates, and the comments of YAML, SQL and shell files. Its arguments are files and
// folders, by default all of the project. It exits 1 if it finds a sentence to rewrite.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = []string{"."}
	}
	count := 0
	for _, root := range roots {
		found, err := check(root)
		if err != nil {
			fmt.Fprintln(os.Stderr, "prose:", err)
			os.Exit(2)
		}
		for _, f := range found {
			fmt.Println(f)
		}
		count += len(found)
	}
	if count > 0 {
		fmt.Fprintf(os.Stderr, "prose: %d to rewrite\n", count)
		os.Exit(1)
	}
}

func check(root string) ([]finding, error) {
	var all []finding
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(path, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := findings(filepath.ToSlash(path), string(text))
		all = append(all, found...)
		return err
	})
	return all, err
}

// skipped also leaves out this package, because it lists the words to avoid.
func skipped(path, name string) bool {
	switch filepath.ToSlash(path) {
	case "bin", "dist", "demo", "cmd/internal/prose":
		return true
	}
	if name == "node_modules" {
		return true // packages of other authors
	}
	return strings.HasPrefix(name, ".") && name != "." && name != ".ci" && name != ".github"
}
