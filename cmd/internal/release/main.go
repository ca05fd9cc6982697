// Command release writes the files of a release for a built binary: an archive, a Python wheel, a CycloneDX SBOM, an
// in-toto statement with SLSA provenance, a list of their SHA-256 sums, and a formula of Homebrew. The statement and the
// list also cover the Debian and RPM packages in the folder. With -formula it writes only the formula, for archives that
// several machines have built. The same binary always results in the same files. `make release` runs it. With -wheel it writes only the wheel, also for a binary without a commit, and prints its
// path. `make wheel` does that.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "`file` of the binary")
	flag.StringVar(&o.out, "out", "dist", "`folder` for the files")
	flag.StringVar(&o.python, "python", "python", "`folder` of the Python project")
	flag.StringVar(&o.builder, "builder", localBuilder, "`URI` of the builder, for the provenance")
	wheel := flag.Bool("wheel", false, "write only the wheel")
	brew := flag.String("formula", "", "write only the formula of Homebrew, for the archives of a `version` in the folder -out")
	flag.Parse()
	o.license, o.documents = "LICENSE", flag.Args()
	do := release
	switch {
	case *wheel:
		do = onlyWheel
	case *brew != "":
		do = func(o options) error { return formula(o.out, *brew) }
	}
	if err := do(o); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, out, python, license, builder string
	documents                          []string // files that the archive contains besides the binary and the license
}

// binary describes the binary of a release.
type binary struct {
	*buildinfo.BuildInfo
	path    string
	sum     string // SHA-256, as hexadecimal digits
	version string // without the v
	commit  string
	at      time.Time // time of the commit
	os      string
	arch    string
}

func read(path string) (*binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum, err := sumOf(path)
	if err != nil {
		return nil, err
	}
	b := &binary{BuildInfo: info, path: path, sum: sum, version: strings.TrimPrefix(info.Main.Version, "v")}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.time":
			b.at, err = time.Parse(time.RFC3339, s.Value)
		case "GOOS":
			b.os = s.Value
		case "GOARCH":
			b.arch = s.Value
		}
	}
	return b, err
}

func (b *binary) releasable() error {
	switch {
	case b.commit == "" || b.at.IsZero():
		return fmt.Errorf("%s has no commit in its build information: build it in a clone of the repository (not in a linked git worktree), with git on the PATH", b.path)
	case strings.HasSuffix(b.version, "+dirty"):
		return fmt.Errorf("%s was built with uncommitted changes: commit them, or build in a fresh clone", b.path)
	}
	return nil
}

// release writes the files. The archive contains the binary, the license and the documents.
func release(o options) error {
	b, err := read(o.bin)
	if err != nil {
		return err
	}
	if err := b.releasable(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return err
	}
	name := filepath.Join(o.out, fmt.Sprintf("penstock_%s_%s_%s", b.version, b.os, b.arch))
	parts, err := b.native()
	if err != nil {
		return err
	}
	err = errors.Join(
		archive(name+".tar.gz", b.at, append([]string{o.bin, o.license}, o.documents...)),
		writeJSON(name+".cdx.json", b.bom(parts)))
	if err != nil {
		return err
	}
	wheel, err := b.wheel(o, name+".cdx.json")
	if err != nil {
		return err
	}
	files := slices.Concat([]string{name + ".tar.gz", wheel, name + ".cdx.json"}, packages(o.out))
	var subjects []subject
	for _, file := range files {
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		subjects = append(subjects, subject{Name: filepath.Base(file), Digest: digest{"sha256": sum}})
	}
	subjects = append(subjects, subject{Name: "penstock", Digest: digest{"sha256": b.sum}})
	if err := writeJSON(name+".intoto.json", b.provenance(o.builder, subjects)); err != nil {
		return err
	}
	return errors.Join(writeSums(name+".sha256", append(files, name+".intoto.json")...), formula(o.out, b.version))
}

// packages returns the Debian and RPM packages that are in the folder.
func packages(folder string) (all []string) {
	for _, pattern := range []string{"*.deb", "*.rpm"} {
		found, _ := filepath.Glob(filepath.Join(folder, pattern)) // the patterns are valid
		all = append(all, found...)
	}
	return all
}

// onlyWheel writes the wheel, and prints its path.
func onlyWheel(o options) error {
	b, err := read(o.bin)
	if err != nil {
		return err
	}
	parts, err := b.native()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "penstock-wheel-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bom := filepath.Join(dir, "bom.json")
	if err := errors.Join(writeJSON(bom, b.bom(parts)), os.MkdirAll(o.out, 0o777)); err != nil {
		return err
	}
	file, err := b.wheel(o, bom)
	if err == nil {
		fmt.Println(file)
	}
	return err
}

func sumOf(path string) (string, error) {
	text, err := os.ReadFile(path)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// writeSums writes a file that sha256sum --check reads.
func writeSums(to string, files ...string) error {
	var text strings.Builder
	for _, file := range files {
		sum, err := sumOf(file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, filepath.Base(file))
	}
	return os.WriteFile(to, []byte(text.String()), 0o666)
}
