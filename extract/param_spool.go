package extract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// spoolMemory limits the bytes of a spool in memory. The rest goes to a file.
const spoolMemory = 1 << 20

// paramSpool stores tuples. A tuple is a JSON array of the values that one request to a child stream takes from a
// parent's record: [12,"a"]. Each tuple is stored once, in the order of the parent's records. First the spool is
// filled, then sealed. Then many goroutines may read it.
type paramSpool struct {
	dir      string
	params   []schemas.Param
	volatile []string // members that the fingerprint leaves out
	keyed    []bool   // for each parameter, whether its value is part of the parent's key and of the path
	seed     maphash.Seed
	seen     map[uint64]int32
	prints   []uint64 // fingerprints of the parents' records, one per line

	memory []byte
	file   *os.File
	buffer *bufio.Writer
}

func newParamSpool(dir string, params []schemas.Param, parent schemas.Stream) *paramSpool {
	s := &paramSpool{dir: dir, volatile: parent.Volatile, seed: maphash.MakeSeed(), seen: make(map[uint64]int32)}
	for _, p := range params {
		if p.From != "" {
			s.params = append(s.params, p)
			s.keyed = append(s.keyed, p.In == "path" && slices.Contains(parent.Key, schemas.Column(p.From)))
		}
	}
	return s
}

// add stores the tuple of a record. If a parameter's pointer leads through an array, each element gives one tuple. A
// record without a value for the path has no tuple. But an empty key is a value: no path can contain it, so the request
// fails and is reported.
func (s *paramSpool) add(d *jsondoc.Doc, r jsondoc.Value) error {
	lines := [][]byte{{'['}}
	for i, p := range s.params {
		values := d.ScalarsAt(r, strings.Split(strings.TrimPrefix(p.From, "/"), "/"))
		switch {
		case len(values) > 0:
		case p.In != "path":
			values = [][]byte{[]byte("null")}
		case s.keyed[i] && blank(d, r, p.From):
			values = [][]byte{[]byte(`""`)}
		}
		var longer [][]byte
		for _, line := range lines {
			for _, v := range values {
				next := bytes.Clone(line)
				if i > 0 {
					next = append(next, ',')
				}
				longer = append(longer, append(next, tupleValue(v)...))
			}
		}
		lines = longer
	}
	var print uint64
	if len(lines) > 0 {
		print = fingerprintOf(d, r, s.volatile)
	}
	for _, line := range lines {
		if err := s.write(append(line, ']', '\n'), print); err != nil {
			return err
		}
	}
	return nil
}

// tupleValue replaces a value that is too long for a request by an array with one text. The text begins like the
// value and is unique.
func tupleValue(v []byte) []byte {
	if len(v) <= maxTupleValue {
		return v
	}
	text, err := json.Marshal(schemas.Indexed(string(v)))
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, "[%s]", text)
}

func blank(d *jsondoc.Doc, r jsondoc.Value, pointer string) bool {
	v := d.At(r, pointer)
	return d.Kind(v) == '"' && d.IsEmpty(v)
}

// write stores the tuple of a record as one line, unless an equal line is already stored. The argument `hash` is the
// fingerprint of the record. Each line has a fingerprint too: the sum of the fingerprints of all records with this
// tuple. So the sum changes if any of these records changes.
func (s *paramSpool) write(line []byte, hash uint64) error {
	h := maphash.Bytes(s.seed, line)
	if at, ok := s.seen[h]; ok {
		s.prints[at] += hash
		return nil
	}
	s.seen[h] = int32(len(s.prints))
	s.prints = append(s.prints, hash)
	if s.file == nil && len(s.memory)+len(line) <= spoolMemory {
		s.memory = append(s.memory, line...)
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "penstock-keys-*")
		if err != nil {
			return fmt.Errorf("create temporary file: %w", err)
		}
		s.file, s.buffer = f, bufio.NewWriterSize(f, 64<<10)
	}
	_, err := s.buffer.Write(line)
	return err
}

func (s *paramSpool) count() int { return len(s.prints) }

func (s *paramSpool) seal() error {
	s.seen = nil
	if s.buffer == nil {
		return nil
	}
	if err := s.buffer.Flush(); err != nil {
		return fmt.Errorf("write temporary file: %w", err)
	}
	s.buffer = nil
	return nil
}

// tuples yields the stored tuples. Each tuple is valid until the loop asks for the next tuple.
func (s *paramSpool) tuples() iter.Seq2[tuple, error] {
	return func(yield func(tuple, error) bool) {
		readers := []io.Reader{bytes.NewReader(s.memory)}
		if s.file != nil {
			readers = append(readers, io.NewSectionReader(s.file, 0, 1<<62))
		}
		in := bufio.NewScanner(io.MultiReader(readers...))
		in.Buffer(nil, 16<<20) // the longest line: a few values of up to maxTupleValue
		for at := 0; in.Scan(); at++ {
			if !yield(tuple{in.Bytes(), s.prints[at]}, nil) {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(tuple{}, fmt.Errorf("read temporary file: %w", err))
		}
	}
}

type tuple struct {
	line  []byte
	print uint64
}

func (s *paramSpool) close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.buffer = nil, nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
