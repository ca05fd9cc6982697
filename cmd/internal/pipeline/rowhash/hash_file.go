package rowhash

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// File stores the key and hash of each row of a stream in a temporary file, in the order in which the rows arrive.
type File struct {
	Tables []entered
	file   *os.File
	w      *bufio.Writer
	size   int64
	Seeds  [2]maphash.Seed
	buf    []byte
}

// entered is a table in a hash file. If the table has no key, the hash of each row is used as the row's key.
type entered struct {
	name string
	Key  []string
	Rows int64
}

// NewFile returns an empty File. The caller closes it.
func NewFile() *File {
	return &File{Seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// Close removes the temporary file.
func (b *File) Close() {
	if b.file != nil {
		_ = errors.Join(b.file.Close(), os.Remove(b.file.Name()))
	}
}

// With returns the given tables of a destination, and also the tables that only the hash file contains.
func (b *File) With(have []schemas.Table) []schemas.Table {
	all := slices.Clone(have)
	for _, t := range b.Tables {
		if !slices.ContainsFunc(have, func(h schemas.Table) bool { return h.Name == t.name }) {
			all = append(all, schemas.Table{Name: t.name})
		}
	}
	return all
}

// Find returns the index of a table in the hash file, or -1.
func (b *File) Find(name string) int {
	return slices.IndexFunc(b.Tables, func(t entered) bool { return t.name == name })
}

// Enter adds the rows of a batch.
func (b *File) Enter(t schemas.Table, rows arrow.RecordBatch) error {
	i := b.Find(t.Name)
	if i < 0 {
		i = len(b.Tables)
		b.Tables = append(b.Tables, entered{name: t.Name, Key: b.keyOf(t)})
	}
	if err := b.open(); err != nil {
		return err
	}
	cells, err := Columns(rows, append(slices.Clone(b.Tables[i].Key), schemas.ColHash))
	if err != nil {
		return fmt.Errorf("note rows of %s: %w", t.Name, err)
	}
	last := len(cells) - 1
	for row := range int(rows.NumRows()) {
		b.Tables[i].Rows++
		b.buf = binary.AppendUvarint(b.buf[:0], uint64(i))
		b.buf = AppendText(b.buf, KeyText(cells[:last], row))
		b.buf = AppendText(b.buf, Text(cells[last], row))
		b.size += int64(len(b.buf))
		if _, err := b.w.Write(b.buf); err != nil {
			return fmt.Errorf("note rows of %s: %w", t.Name, err)
		}
	}
	return nil
}

// keyOf returns the columns that identify a row of a table. If the records have no key, two values identify a child
// row: the hash of its record, and the row's index in that record.
func (b *File) keyOf(t schemas.Table) []string {
	if len(b.Tables) > 0 && len(b.Tables[0].Key) == 1 && b.Tables[0].Key[0] == schemas.ColHash {
		return []string{schemas.ColHash, schemas.ColIndex}
	}
	if len(t.Key) == 0 {
		return []string{schemas.ColHash}
	}
	return t.Key
}

func (b *File) open() (err error) {
	if b.file != nil {
		return nil
	}
	if b.file, err = os.CreateTemp("", "penstock-verify-*"); err != nil {
		return fmt.Errorf("note rows: %w", err)
	}
	b.w = bufio.NewWriterSize(b.file, 256<<10)
	return nil
}

// Fingerprint is a fingerprint of a key. Two different keys have the same fingerprint with a probability of one
// in 2^128.
type Fingerprint [2]uint64

// Fingerprint returns the fingerprint of a key.
func (b *File) Fingerprint(key string) Fingerprint {
	return Fingerprint{maphash.String(b.Seeds[0], key), maphash.String(b.Seeds[1], key)}
}

// Each calls row() for every row of the table at index i.
func (b *File) Each(i int, row func(at int64, key, hash string) error) error {
	if b.file == nil {
		return nil
	}
	if err := b.w.Flush(); err != nil {
		return err
	}
	r := &counted{r: bufio.NewReaderSize(io.NewSectionReader(b.file, 0, b.size), 256<<10)}
	for r.n < b.size {
		at := r.n
		table, err := binary.ReadUvarint(r)
		key, err1 := r.text()
		hash, err2 := r.text()
		if err := errors.Join(err, err1, err2); err != nil {
			return fmt.Errorf("read noted rows: %w", err)
		}
		if int(table) != i {
			continue
		}
		if err := row(at, key, hash); err != nil {
			return err
		}
	}
	return nil
}

// KeyAt returns the key of the row at an offset.
func (b *File) KeyAt(at int64) (string, error) {
	r := &counted{r: bufio.NewReader(io.NewSectionReader(b.file, at, b.size-at))}
	if _, err := binary.ReadUvarint(r); err != nil {
		return "", err
	}
	return r.text()
}

type counted struct {
	r *bufio.Reader
	n int64
}

// ReadByte implements [io.ByteReader].
func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

func (c *counted) text() (string, error) {
	n, err := binary.ReadUvarint(c)
	if err != nil {
		return "", err
	}
	b := make([]byte, n)
	m, err := io.ReadFull(c.r, b)
	c.n += int64(m)
	return string(b), err
}

// AppendText appends the length of s, and then s.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Columns returns columns of a batch by name.
func Columns(b arrow.RecordBatch, names []string) ([]arrow.Array, error) {
	out := make([]arrow.Array, len(names))
	for i, name := range names {
		at := b.Schema().FieldIndices(name)
		if len(at) != 1 {
			return nil, fmt.Errorf("no column %q", name)
		}
		out[i] = b.Column(at[0])
	}
	return out, nil
}
