package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// So many texts, and bytes of them, a dictionary holds that is made here.
const (
	dictionaryTexts = 1 << 14
	dictionaryBytes = 512 << 10
)

// textDictionary is the type of a column whose texts stand once each, and their
// places for each row.
var textDictionary = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}

// dictionary gathers the texts of a column.
type dictionary struct {
	places map[string]int32
	texts  []string
	bytes  int
	last   string // was asked for last: equal texts mostly follow each other
	at     int32  // its place
}

// encodeTexts gives the parts of a column of texts one dictionary, which the
// encoder of the file takes as it is: it finds the place of a text itself at ten
// times the cost. It reports false where the parts are to be written as they
// are: they are no texts, or too many differ, or there are none. The caller
// releases the arrays.
func encodeTexts(parts []arrow.Array) ([]arrow.Array, bool) {
	d := dictionary{places: map[string]int32{}}
	places := make([][]int32, len(parts))
	for i, p := range parts {
		texts, ok := p.(*array.String)
		if !ok {
			return nil, false
		}
		if places[i], ok = d.take(texts); !ok {
			return nil, false
		}
	}
	if len(d.texts) == 0 {
		return nil, false
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(d.texts, nil)
	values := b.NewArray()
	defer values.Release()
	out := make([]arrow.Array, len(parts))
	for i, p := range parts {
		from := p.Data()
		data := array.NewData(arrow.PrimitiveTypes.Int32, p.Len(),
			[]*memory.Buffer{from.Buffers()[0], memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(places[i]))}, nil, p.NullN(), from.Offset())
		indices := array.NewInt32Data(data)
		data.Release()
		out[i] = array.NewDictionaryArray(textDictionary, indices, values)
		indices.Release()
	}
	return out, true
}

// take is the place of each row's text, from the array's offset on. It reports
// false when the dictionary is full.
func (d *dictionary) take(texts *array.String) ([]int32, bool) {
	offset := texts.Data().Offset()
	out := make([]int32, offset+texts.Len())
	for i := range texts.Len() {
		if texts.IsNull(i) {
			continue
		}
		if v := texts.Value(i); v != d.last || len(d.texts) == 0 {
			if !d.find(v) {
				return nil, false
			}
		}
		out[offset+i] = d.at
	}
	return out, true
}

// find goes to the place of a text.
func (d *dictionary) find(v string) bool {
	at, ok := d.places[v]
	if !ok {
		if d.bytes += len(v); len(d.texts) == dictionaryTexts || d.bytes > dictionaryBytes {
			return false
		}
		at = int32(len(d.texts))
		d.texts = append(d.texts, v)
		d.places[v] = at
	}
	d.last, d.at = v, at
	return true
}
