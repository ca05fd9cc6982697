package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// downloads is where the files of a release can be downloaded, in a folder for each tag.
const downloads = "https://github.com/penstock-data/penstock/releases/download"

//go:embed penstock.rb.tmpl
var formulaText string

// formulaArchive is an archive of a release, as the formula names it.
type formulaArchive struct {
	OS, Arch string // the words of Homebrew
	URL, Sum string
}

// Words of Homebrew for platforms of Go.
var (
	brewSystems = map[string]string{"linux": "linux", "darwin": "macos"}
	brewArches  = map[string]string{"amd64": "intel", "arm64": "arm"}
)

// formula writes penstock.rb, a formula of Homebrew, for the archives of a version that are in the folder.
func formula(folder, version string) error {
	files, err := filepath.Glob(filepath.Join(folder, "penstock_"+version+"_*.tar.gz"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var all []formulaArchive
	for _, file := range files {
		name := filepath.Base(file)
		system, arch, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, "penstock_"+version+"_"), ".tar.gz"), "_")
		if brewSystems[system] == "" || brewArches[arch] == "" {
			return fmt.Errorf("write formula: Homebrew has no platform for %s", name)
		}
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		all = append(all, formulaArchive{brewSystems[system], brewArches[arch], downloads + "/v" + version + "/" + name, sum})
	}
	if all == nil {
		return fmt.Errorf("write formula: no archive of version %q in %s", version, folder)
	}
	t, err := template.New("formula").Parse(formulaText)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := t.Execute(&text, map[string]any{"Version": version, "Archives": all}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "penstock.rb"), []byte(text.String()), 0o666)
}
