package encode

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/klauspost/compress/zstd"
)

const (
	magic     = "PAR1"
	statBytes = 4096 // longer texts are not written into the footer as bounds
	wholePage = 1 << 20
	sliceRows = 1024 // rows of a column that are encoded between checks of the page's size
)

// encoder writes a file with one row group, in half the time that pqarrow needs. It writes levels as runs and
// integers as differences, builds a dictionary once, and shares buffers between columns.
type encoder struct {
	out    *countingWriter
	schema *arrow.Schema
	footer *metadata.FileMetaDataBuilder
	group  *metadata.RowGroupMetaDataBuilder
	pool   *Pool
	tools  *tools
}

type countingWriter struct {
	io.Writer
	n int64
}

// Write implements [io.Writer].
func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	return n, err
}

// Tell returns the number of bytes written. arrow-go requires this method.
func (c *countingWriter) Tell() int64 { return c.n }

// Pool keeps the compressors and buffers of finished files for later files. The zero value is ready to use. It may be
// used concurrently.
type Pool struct{ kept sync.Pool }

// tools are a compressor and buffers. They are kept for the next file, because it takes longer to build the
// compressor's tables than to compress a page.
type tools struct {
	zstd         *zstd.Encoder
	reps, defs   []uint8
	page, packed []byte

	// One of these slices has the values of the current page, without nulls.
	bytes    []byte
	integers []int64
	bits     []uint8
	places   []uint32 // indexes of the values of all pages: see [dictionary]
}

func (p *Pool) get() (*tools, error) {
	if t, ok := p.kept.Get().(*tools); ok {
		return t, nil
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true), zstd.WithAllLitEntropyCompression(true))
	return &tools{zstd: z}, err
}

// Element returns the type of the elements of a list, or the type t itself.
func Element(t arrow.DataType) (of arrow.DataType, list bool) {
	if l, ok := t.(*arrow.ListType); ok {
		return l.Elem(), true
	}
	return t, false
}

func encodable(s *arrow.Schema) bool {
	for _, f := range s.Fields() {
		if t, _ := Element(f.Type); leafOf(t, nil) == nil {
			return false
		}
	}
	return true
}

func pathOf(f arrow.Field) parquet.ColumnPath {
	if f.Type.ID() == arrow.LIST {
		return parquet.ColumnPath{f.Name, "list", "element"}
	}
	return parquet.ColumnPath{f.Name}
}

func newEncoder(s *arrow.Schema, out io.Writer, pool *Pool) (*encoder, error) {
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false), parquet.WithDataPageVersion(parquet.DataPageV1), parquet.WithCreatedBy("penstock"),
	}
	for _, f := range s.Fields() {
		t, _ := Element(f.Type)
		props = append(props, parquet.WithEncodingPath(pathOf(f), encodingOf(t)))
	}
	all := parquet.NewWriterProperties(props...)
	as, err := pqarrow.ToParquet(s, all, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, err
	}
	e := &encoder{out: &countingWriter{Writer: out}, schema: s, footer: metadata.NewFileMetadataBuilder(as, all, keyValues(s)), pool: pool}
	e.group = e.footer.AppendRowGroup()
	if e.tools, err = pool.get(); err != nil {
		return nil, err
	}
	_, err = io.WriteString(e.out, magic)
	return e, err
}

func keyValues(s *arrow.Schema) metadata.KeyValueMetadata {
	var out metadata.KeyValueMetadata
	if !described(s) {
		return out
	}
	md := s.Metadata()
	for i, k := range md.Keys() {
		_ = out.Append(k, md.Values()[i])
	}
	fields := s.Fields()
	for i, f := range fields {
		if t, list := Element(f.Type); list {
			fields[i].Type = arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: true}) // as in the file
		}
	}
	text := base64.StdEncoding.EncodeToString(flight.SerializeSchema(arrow.NewSchema(fields, &md), memory.DefaultAllocator))
	_ = out.Append("ARROW:schema", text)
	return out
}

func (e *encoder) column(c int, parts []arrow.Array, repeating bool) error {
	t, list := Element(e.schema.Field(c).Type)
	x := &chunk{encoder: e, list: list, leaf: leafOf(t, e.tools), as: encodingOf(t), top: 1}
	if list {
		x.top = 3
	}
	about := e.group.NextColumnChunk()
	var err error
	x.pages, err = pqfile.NewPageWriter(e.out, compress.Codecs.Zstd, 1, about, 0, int16(c), memory.DefaultAllocator, false, nil, nil)
	if err != nil {
		return err
	}
	if repeating {
		if err := x.useDictionary(t, parts); err != nil {
			return err
		}
	}
	if err := x.write(parts); err != nil {
		return err
	}
	s := metadata.EncodedStatistics{Signed: t.ID() != arrow.STRING}
	x.leaf.bounds(&s)
	s.ApplyStatSizeLimits(statBytes)
	s.SetNullCount(x.nulls)
	about.SetStats(s)
	_, shared := x.leaf.(*dictionary)
	return x.pages.Close(shared, false)
}

// finish writes the footer. The encoder cannot be used afterwards.
func (e *encoder) finish(rows int) error {
	e.pool.kept.Put(e.tools)
	e.group.SetNumRows(rows)
	if err := e.group.Finish(e.out.n, 0); err != nil {
		return err
	}
	footer, err := e.footer.Finish()
	if err != nil {
		return err
	}
	n, err := footer.WriteTo(e.out, nil)
	if err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	_, err = e.out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), magic...))
	return err
}
