package main

import (
	"archive/zip"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// wheel writes a Python wheel, and returns its path. The wheel contains the binary as a script,
// the Python module, the license and the SBOM. Like the archive, it depends only on the binary and these files.
func (b *binary) wheel(o options, bom string) (file string, err error) {
	version, err := pythonVersion(b.version)
	if err != nil {
		return "", err
	}
	tags, err := b.platformTags()
	if err != nil {
		return "", err
	}
	p, err := readProject(o.python)
	if err != nil {
		return "", err
	}
	file = filepath.Join(o.out, fmt.Sprintf("penstock-%s-py3-none-%s.whl", version, strings.Join(tags, ".")))
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newWheelWriter(f, b.at)
	info := "penstock-" + version + ".dist-info/"
	if err := w.module(filepath.Join(o.python, "src", "penstock")); err != nil {
		return "", err
	}
	script := "penstock"
	if b.os == "windows" {
		script += ".exe"
	}
	return file, errors.Join(
		w.file("penstock-"+version+".data/scripts/"+script, 0o755, b.path),
		w.text(info+"METADATA", p.metadata(version)),
		w.text(info+"WHEEL", wheelInfo(tags)),
		w.file(info+"licenses/LICENSE", 0o644, o.license),
		w.file(info+"sboms/penstock.cdx.json", 0o644, bom),
		w.close(info+"RECORD"),
	)
}

func wheelInfo(tags []string) string {
	var text strings.Builder
	text.WriteString("Wheel-Version: 1.0\nGenerator: penstock release\nRoot-Is-Purelib: false\n")
	for _, tag := range tags {
		fmt.Fprintf(&text, "Tag: py3-none-%s\n", tag)
	}
	return text.String()
}

// wheelWriter writes a zip file with a record of its files. Times and modes are the same on every machine.
type wheelWriter struct {
	zip    *zip.Writer
	at     time.Time
	record strings.Builder
}

func newWheelWriter(to io.Writer, at time.Time) *wheelWriter {
	if at.IsZero() {
		at = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) // the earliest time in a zip file
	}
	w := &wheelWriter{zip: zip.NewWriter(to), at: at.UTC()}
	w.zip.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	return w
}

// module adds the Python files of a folder, and the marker that they have types.
func (w *wheelWriter) module(folder string) error {
	files, err := os.ReadDir(folder) // in the order of their names
	if err != nil {
		return err
	}
	for _, f := range files {
		name := f.Name()
		if filepath.Ext(name) != ".py" && name != "py.typed" {
			continue
		}
		if err := w.file(path.Join("penstock", name), 0o644, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *wheelWriter) text(name, text string) error {
	return w.add(name, 0o644, strings.NewReader(text))
}

func (w *wheelWriter) file(name string, mode fs.FileMode, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.add(name, mode, f)
}

func (w *wheelWriter) add(name string, mode fs.FileMode, from io.Reader) error {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: w.at}
	h.SetMode(mode)
	to, err := w.zip.CreateHeader(h)
	if err != nil {
		return err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, sum), from)
	fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, digestOf(sum), size)
	return err
}

func digestOf(sum hash.Hash) string { return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)) }

// close adds the record, which has no hash of itself.
func (w *wheelWriter) close(record string) error {
	fmt.Fprintf(&w.record, "%s,,\n", record)
	text := w.record.String() // add() extends the record
	return errors.Join(w.text(record, text), w.zip.Close())
}
