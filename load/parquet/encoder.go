package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

const (
	magic     = "PAR1"
	statBytes = 4096 // longer texts stand as no bound in a footer
	wholePage = 1 << 20
	sliceRows = 1024 // of a column that are taken before a page's size is looked at
)

// encoder writes a file that is one row group, whose columns are all at hand,
// from the buffers of Arrow into pages. It does for the types of the lattice
// what pqarrow does for all, in half the time: levels are written by runs,
// integers as differences, a dictionary is built once, and all columns share
// their buffers.
type encoder struct {
	out    *counted
	schema *arrow.Schema
	footer *metadata.FileMetaDataBuilder
	group  *metadata.RowGroupMetaDataBuilder
	kept   *sync.Pool
	*tools
}

// counted is a writer that knows how far it is.
type counted struct {
	io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	return n, err
}

func (c *counted) Tell() int64 { return c.n }

// element is the type of a column's values: of those in its lists, where it has
// lists.
func element(t arrow.DataType) (of arrow.DataType, list bool) {
	if l, ok := t.(*arrow.ListType); ok {
		return l.Elem(), true
	}
	return t, false
}

// encodable reports whether an encoder knows all types of a schema.
func encodable(s *arrow.Schema) bool {
	for _, f := range s.Fields() {
		if t, _ := element(f.Type); leafOf(t, nil) == nil {
			return false
		}
	}
	return true
}

// pathOf is the name of a column's values in a file.
func pathOf(f arrow.Field) parquet.ColumnPath {
	if f.Type.ID() == arrow.LIST {
		return parquet.ColumnPath{f.Name, "list", "element"}
	}
	return parquet.ColumnPath{f.Name}
}

// newEncoder begins a file of columns as in s.
func newEncoder(s *arrow.Schema, out io.Writer, kept *sync.Pool) (*encoder, error) {
	props := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false), parquet.WithDataPageVersion(parquet.DataPageV1), parquet.WithCreatedBy("penstock"),
	}
	for _, f := range s.Fields() {
		t, _ := element(f.Type)
		props = append(props, parquet.WithEncodingPath(pathOf(f), encodingOf(t)))
	}
	all := parquet.NewWriterProperties(props...)
	as, err := pqarrow.ToParquet(s, all, pqarrow.NewArrowWriterProperties())
	if err != nil {
		return nil, err
	}
	e := &encoder{out: &counted{Writer: out}, schema: s, footer: metadata.NewFileMetadataBuilder(as, all, keyValues(s)), kept: kept}
	e.group = e.footer.AppendRowGroup()
	if e.tools, err = pickTools(kept); err != nil {
		return nil, err
	}
	_, err = io.WriteString(e.out, magic)
	return e, err
}

// keyValues are what a footer tells besides the columns: what they mean.
func keyValues(s *arrow.Schema) metadata.KeyValueMetadata {
	var out metadata.KeyValueMetadata
	if !told(s) {
		return out
	}
	md := s.Metadata()
	for i, k := range md.Keys() {
		_ = out.Append(k, md.Values()[i]) // names and texts are valid
	}
	fields := s.Fields()
	for i, f := range fields {
		if t, list := element(f.Type); list {
			fields[i].Type = arrow.ListOfField(arrow.Field{Name: "element", Type: t, Nullable: true}) // as in the file
		}
	}
	text := base64.StdEncoding.EncodeToString(flight.SerializeSchema(arrow.NewSchema(fields, &md), memory.DefaultAllocator))
	_ = out.Append("ARROW:schema", text)
	return out
}

// column writes the next column.
func (e *encoder) column(c int, parts []arrow.Array, repeating bool) error {
	t, list := element(e.schema.Field(c).Type)
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
		if err := x.share(t, parts); err != nil {
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

// finish writes the footer. The encoder is no use after it.
func (e *encoder) finish(rows int) error {
	e.kept.Put(e.tools)
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

// chunk is a column in the making.
type chunk struct {
	*encoder
	pages pqfile.PageWriter
	leaf  leaf
	as    parquet.Encoding
	list  bool
	top   uint8 // definition level of a value that is there
	holes int   // of the page: levels below top
	nulls int64
}

// share has the column written by a dictionary, unless too many values differ.
func (x *chunk) share(t arrow.DataType, parts []arrow.Array) error {
	d := newDictionary(t, x.tools)
	if d == nil {
		return nil
	}
	full := false
	for _, p := range parts {
		spans(p, 0, p.Len(), func(a arrow.Array, from, to int) { full = full || !d.fill(a, from, to) })
	}
	if full || d.values == 0 {
		d.plain.encode(nil) // what it has taken is of no use
		return nil
	}
	data := d.plain.encode(nil)
	_, err := x.pages.WriteDictionaryPage(pqfile.NewDictionaryPage(memory.NewBufferBytes(data), int32(d.values), parquet.Encodings.Plain))
	x.leaf, x.as = d, parquet.Encodings.RLEDict
	return err
}

// spans hands out where rows have their values: next to each other but for
// lists, of which those that are null may have left something behind.
func spans(a arrow.Array, from, to int, each func(values arrow.Array, from, to int)) {
	l, ok := a.(*array.List)
	if !ok {
		each(a, from, to)
		return
	}
	var start, end int64
	for i := from; i < to; i++ {
		if l.IsNull(i) {
			continue
		}
		first, next := l.ValueOffsets(i)
		if first != end {
			each(l.ListValues(), int(start), int(end))
			start = first
		}
		end = next
	}
	each(l.ListValues(), int(start), int(end))
}

// write cuts the column into pages.
func (x *chunk) write(parts []arrow.Array) error {
	for _, p := range parts {
		for from := 0; from < p.Len(); from += sliceRows {
			to := min(from+sliceRows, p.Len())
			x.level(p, from, to)
			spans(p, from, to, x.leaf.take)
			if x.leaf.size()+len(x.defs)/8 < wholePage {
				continue
			}
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	return x.flush()
}

// level takes down which of the rows have values.
func (x *chunk) level(a arrow.Array, from, to int) {
	l, ok := a.(*array.List)
	if !ok {
		x.defs = x.mark(x.defs, a, from, to, x.top)
		return
	}
	values := l.ListValues()
	for i := from; i < to; i++ {
		first, next := l.ValueOffsets(i)
		if l.IsNull(i) || first == next {
			has := uint8(1)
			if l.IsNull(i) {
				has = 0
			}
			x.reps, x.defs = append(x.reps, 0), append(x.defs, has)
			x.holes++
			continue
		}
		x.reps = append(x.reps, 0)
		for range next - first - 1 {
			x.reps = append(x.reps, 1)
		}
		x.defs = x.mark(x.defs, values, int(first), int(next), x.top)
	}
}

// mark appends a level for each value: top, or one less where it is null.
func (x *chunk) mark(levels []uint8, a arrow.Array, from, to int, top uint8) []uint8 {
	whole := a.NullN() == 0
	for i := from; i < to; i++ {
		if whole || a.IsValid(i) {
			levels = append(levels, top)
			continue
		}
		levels = append(levels, top-1)
		x.holes++
	}
	return levels
}

// flush writes the page.
func (x *chunk) flush() error {
	n := len(x.defs)
	if n == 0 {
		return nil
	}
	page := x.page[:0]
	if x.list {
		page = appendLevels(page, x.reps, 1)
	}
	page = x.leaf.encode(appendLevels(page, x.defs, x.top))
	x.packed = x.zstd.EncodeAll(page, x.packed[:0])
	x.nulls += int64(x.holes)
	x.page, x.reps, x.defs, x.holes = page, x.reps[:0], x.defs[:0], 0
	p := pqfile.NewDataPageV1(memory.NewBufferBytes(x.packed), int32(n), x.as, parquet.Encodings.RLE, parquet.Encodings.RLE, int32(len(page)))
	defer p.Release()
	_, err := x.pages.WriteDataPage(p)
	return err
}
