package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// engineModule is the prefix of the paths of the modules with DuckDB's static libraries. There is one such module for
// each platform.
const engineModule = "github.com/duckdb/duckdb-go-bindings/lib/"

// native returns the parts of the binary that are not Go: DuckDB, and the libraries of the system that are loaded
// when the binary starts.
func (b *binary) native() ([]cdx.Component, error) {
	var all []cdx.Component
	for _, m := range b.Deps {
		if !strings.HasPrefix(m.Path, engineModule) {
			continue
		}
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.Path+"@"+m.Version).Output()
		if err != nil {
			return nil, fmt.Errorf("find module %s: %w", m.Path, err)
		}
		c, err := engine(strings.TrimSpace(string(dir)), m.Version)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Path, err)
		}
		all = append(all, c)
	}
	loaded, err := dynamic(b.path)
	return append(all, loaded...), err
}

func engine(dir, moduleVersion string) (cdx.Component, error) {
	version, err := engineVersion(moduleVersion)
	if err != nil {
		return cdx.Component{}, err
	}
	files, err := linked(dir)
	if err != nil {
		return cdx.Component{}, err
	}
	var parts []cdx.Component
	for _, file := range files {
		sum, err := sumOf(filepath.Join(dir, file))
		if err != nil {
			return cdx.Component{}, err
		}
		parts = append(parts, cdx.Component{
			BOMRef: "duckdb/" + file, Type: cdx.ComponentTypeLibrary, Name: file, Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		})
	}
	url := "pkg:github/duckdb/duckdb@" + version
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: "duckdb", Version: version, PackageURL: url,
		Description: "the C++ engine, with the third-party libraries in its source", Components: &parts,
		Licenses:           &cdx.Licenses{{License: &cdx.License{ID: "MIT"}}},
		ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: "https://github.com/duckdb/duckdb"}},
	}, nil
}

// engineVersion returns DuckDB's version from the version of its module: v1.5.5 from v0.10505.0.
func engineVersion(module string) (string, error) {
	parts := strings.Split(module, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("version %s does not contain a version of DuckDB", module)
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil || n < 10000 {
		return "", fmt.Errorf("version %s does not contain a version of DuckDB", module)
	}
	return fmt.Sprintf("v%d.%d.%d", n/10000, n/100%100, n%100), nil
}

func linked(dir string) (files []string, err error) {
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			_, flags, ok := strings.Cut(line, "#cgo LDFLAGS:")
			if !ok {
				continue
			}
			for word := range strings.FieldsSeq(flags) {
				file := "lib" + strings.TrimPrefix(word, "-l") + ".a"
				if _, err := os.Stat(filepath.Join(dir, file)); err == nil && strings.HasPrefix(word, "-l") {
					files = append(files, file)
				}
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go file in %s passes a static library to the linker", dir)
	}
	return files, nil
}

// dynamic returns the libraries of the system that an ELF binary loads. It returns nothing for other binaries.
func dynamic(path string) ([]cdx.Component, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	names, err := f.ImportedLibraries()
	var all []cdx.Component
	for _, name := range names {
		all = append(all, cdx.Component{
			BOMRef: "system/" + name, Type: cdx.ComponentTypeLibrary, Name: name, Scope: cdx.ScopeExcluded, Description: "a library of the system, loaded when the binary starts",
		})
	}
	return all, err
}
