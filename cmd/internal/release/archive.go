package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

// archive writes a tar.gz of the files, without their folders. Owners, times and modes are the same on every
// machine.
func archive(to string, at time.Time, files []string) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	all := tar.NewWriter(zip)
	for i, file := range files {
		mode := int64(0o644)
		if i == 0 {
			mode = 0o755
		}
		if err := add(all, file, mode, at); err != nil {
			return err
		}
	}
	return errors.Join(all.Close(), zip.Close())
}

func add(to *tar.Writer, path string, mode int64, at time.Time) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(path), Size: info.Size(), Mode: mode, ModTime: at, Format: tar.FormatUSTAR}
	if err := to.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return err
}

func writeJSON(to string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(text, '\n'), 0o666)
}
