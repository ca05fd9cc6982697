package transform

import (
	"bytes"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// The oracle maps records in the simplest way. It parses every record into a tree, joins the types of the values of
// each column, and writes the cells as text. From the tested code, it uses only the lattice and the rules.

type node struct {
	kind    jsontext.Kind
	raw     string
	text    string
	bad     bool
	names   []string
	members map[string]*node
	items   []*node

	parts []oraclePart // members of an object, in their original order
}

type oraclePart struct {
	raw, name string
	bad       bool
	value     *node
}

func parseNode(raw string) (*node, error) {
	d := jsontext.NewDecoder(strings.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	n := &node{kind: v.Kind(), raw: string(v)}
	sub := jsontext.NewDecoder(strings.NewReader(n.raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	t, err := sub.ReadToken()
	if err != nil {
		return nil, err
	}
	switch n.kind {
	case '"':
		n.text, n.bad = t.String(), !v.IsValid()
	case '{':
		for sub.PeekKind() == '"' {
			name, err := sub.ReadValue()
			if err != nil {
				return nil, err
			}
			p := oraclePart{raw: string(name), bad: !name.IsValid()}
			if !p.bad {
				text, _ := jsontext.AppendUnquote(nil, name)
				p.name = string(text)
			}
			v, err := sub.ReadValue()
			if err != nil {
				return nil, err
			}
			if p.value, err = parseNode(string(v)); err != nil {
				return nil, err
			}
			n.parts = append(n.parts, p)
		}
	case '[':
		for sub.PeekKind() != ']' {
			v, err := sub.ReadValue()
			if err != nil {
				return nil, err
			}
			item, err := parseNode(string(v))
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	}
	return n, nil
}

func null() *node { return &node{kind: 'n', raw: "null"} }

func (n *node) repair(level int) (fixed *node, changed bool) {
	if level-1+n.depth() > maxLevels && (n.kind != '{' || level > maxDepth) || n.bad {
		return null(), true
	}
	var b strings.Builder
	switch n.kind {
	case '{':
		n.members = map[string]*node{}
		for i, p := range n.parts {
			first, same := i, true
			for j, o := range n.parts {
				if !p.bad && !o.bad && o.name == p.name {
					first, same = min(first, j), same && o.value.raw == p.value.raw
				}
			}
			if p.bad || first != i {
				changed = true
				continue
			}
			value, other := p.value.repair(level + 1)
			if changed = changed || other; !same {
				value, changed = null(), true
			}
			n.names = append(n.names, p.name)
			n.members[p.name] = value
			if b.Len() > 0 {
				b.WriteByte(',')
			}
			b.WriteString(p.raw + ":" + value.raw)
		}
		if changed {
			n.raw = "{" + b.String() + "}"
		}
	case '[':
		var raws []string
		for i, item := range n.items {
			value, other := item.repair(level + 1)
			n.items[i], changed = value, changed || other
			raws = append(raws, value.raw)
		}
		if changed {
			n.raw = "[" + strings.Join(raws, ",") + "]"
		}
	}
	return n, changed
}

func (n *node) depth() int {
	deepest := 0
	for _, p := range n.parts {
		deepest = max(deepest, p.value.depth())
	}
	for _, v := range n.items {
		deepest = max(deepest, v.depth())
	}
	if n.kind == '{' || n.kind == '[' {
		deepest++
	}
	return deepest
}

type oracle struct {
	stream  schemas.Stream
	tables  map[string]*oracleTable // by path from the record
	refused map[int64]string        // reasons by ordinal
	ordinal int64
}

type oracleTable struct {
	types         map[string]arrow.DataType // types by pointer from the row
	rows          []map[string]*node
	parent, index []int
	ordinal       []int64
}

func newOracle(s schemas.Stream) *oracle {
	return &oracle{stream: s, tables: map[string]*oracleTable{}, refused: map[int64]string{}}
}

func (o *oracle) table(path string) *oracleTable {
	if o.tables[path] == nil {
		o.tables[path] = &oracleTable{types: map[string]arrow.DataType{}}
	}
	return o.tables[path]
}

func (o *oracle) page(raw []byte) error {
	loose := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if !jsontext.Value(raw).IsValid(loose...) {
		raw = []byte(controlInString.ReplaceAllStringFunc(string(raw), func(s string) string {
			return control.ReplaceAllStringFunc(s, func(c string) string { return fmt.Sprintf(`\u%04x`, c[0]) })
		}))
	}
	if !jsontext.Value(raw).IsValid(loose...) || jsontext.Value(raw).Kind() != '[' {
		return fmt.Errorf("not valid")
	}
	page, err := parseNode(string(raw))
	if err != nil {
		return err
	}
	for _, record := range page.items {
		record, _ = record.repair(1)
		if why := o.fault(record); why != "" {
			o.refused[o.ordinal] = why
		} else {
			o.row(o.table(""), "", record, 0, 0)
		}
		o.ordinal++
	}
	return nil
}

var (
	controlInString = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"`)
	control         = regexp.MustCompile(`[\x00-\x1f]`)
)

func (o *oracle) fault(record *node) string {
	switch {
	case record.kind == 'n':
		return "null"
	case len(record.raw) > maxRecord:
		return "size"
	}
	for _, key := range o.stream.Key {
		v := record.members[key]
		if record.kind != '{' {
			v = nil
		}
		if v == nil || v.kind == 'n' || v.kind == '{' || v.kind == '[' {
			return "key"
		}
	}
	return ""
}

func (o *oracle) row(t *oracleTable, path string, record *node, parent, index int) {
	t.rows = append(t.rows, map[string]*node{})
	t.parent = append(t.parent, parent)
	t.index = append(t.index, index)
	t.ordinal = append(t.ordinal, o.ordinal)
	depth := 1
	if path != "" {
		depth += strings.Count(path, "/")
	}
	if record.kind == '{' {
		o.object(t, path, "", record, depth)
		return
	}
	o.value(t, path, "", record, depth)
}

func (o *oracle) object(t *oracleTable, path, pointer string, v *node, depth int) {
	for _, name := range v.names {
		escaped := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
		o.value(t, path, pointer+"/"+escaped, v.members[name], depth)
	}
}

var allDigits = regexp.MustCompile(`^[0-9]+$`)

func (n *node) isMap() bool {
	if n.kind != '{' || len(n.names) == 0 {
		return false
	}
	for _, name := range n.names {
		if !allDigits.MatchString(name) {
			return false
		}
	}
	return true
}

func (o *oracle) value(t *oracleTable, path, pointer string, v *node, depth int) {
	row := len(t.rows) - 1
	declared := o.declared(path, pointer)
	store := func(typ arrow.DataType) {
		if t.types[pointer] == nil {
			t.types[pointer] = orNull(declared)
		}
		t.types[pointer] = schemas.Join(t.types[pointer], typ)
		t.rows[row][pointer] = v
	}
	switch {
	case v.kind == 'n', v.kind == '{' && len(v.names) == 0 && kindOf(orNull(declared)) != kindJSON:
		store(schemas.Null)
		delete(t.rows[row], pointer)
	case v.kind == '{' && depth < maxDepth && !v.isMap() && kindOf(orNull(declared)) != kindJSON:
		store(schemas.Null)
		delete(t.rows[row], pointer)
		o.object(t, path, pointer, v, depth+1)
	case v.kind == '{':
		store(schemas.JSON)
	case v.kind == '[':
		typ := listType(v)
		if kindOf(orNull(declared)) == kindJSON {
			typ = schemas.JSON
		}
		if typ != nil {
			store(typ)
			return
		}
		if depth >= maxDepth || pointer == "" {
			store(schemas.JSON)
			return
		}
		store(schemas.Null)
		delete(t.rows[row], pointer)
		child := o.table(path + pointer)
		for i, item := range v.items {
			if item.kind != 'n' {
				o.row(child, path+pointer, item, row, i)
			}
		}
	default:
		store(scalarType(v, declared))
	}
}

func (o *oracle) declared(path, pointer string) arrow.DataType {
	name, ok := o.stream.Types[schemas.Column(path+pointer)]
	if !ok {
		return nil
	}
	t, _ := schemas.ParseType(name)
	return t
}

func listType(v *node) arrow.DataType {
	if len(v.items) == 0 {
		return schemas.Empty
	}
	elem, objects, others := schemas.Null, 0, 0
	for _, item := range v.items {
		switch {
		case item.kind == '{' && !item.isMap():
			objects++
		case item.kind == 'n':
		case item.kind == '{' || item.kind == '[':
			return schemas.JSON
		default:
			others++
			elem = schemas.Join(elem, scalarType(item, nil))
		}
	}
	switch {
	case others == 0 && objects > 0:
		return nil
	case objects > 0:
		return schemas.JSON
	}
	return arrow.ListOf(elem)
}

var (
	plainForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	timeForm  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

func scalarType(v *node, declared arrow.DataType) arrow.DataType {
	d := kindOf(orNull(declared))
	spelled := v.raw
	switch v.kind {
	case 't', 'f':
		return schemas.Bool
	case '"':
		if d != kindBool && d != kindInt && d != kindDecimal || !plainForm.MatchString(v.text) || len(v.text) > 64 {
			return textType(v.text)
		}
		spelled = v.text
	}
	if d == kindBool && (spelled == "0" || spelled == "1") {
		return schemas.Bool
	}
	return oracleNumber(spelled, d)
}

func textType(s string) arrow.DataType {
	if _, ok := oracleTime(s); ok {
		return schemas.Timestamp
	}
	if v, err := time.Parse("2006-01-02", s); err == nil && v.Year() > 0 && len(s) == 10 {
		return schemas.Date
	}
	return schemas.Text
}

func oracleTime(s string) (time.Time, bool) {
	if !timeForm.MatchString(s) {
		return time.Time{}, false
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	return v, err == nil && s[:4] != "0000"
}

func oracleNumber(s string, declared kind) arrow.DataType {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	if !hasExponent {
		return plainType(s, whole, fraction, declared)
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	scale := new(big.Int).SetInt64(int64(len(fraction)))
	e, _ := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	scale.Sub(scale, e)
	trimmed := strings.TrimRight(digits, "0")
	scale.Sub(scale, big.NewInt(int64(len(digits)-len(trimmed))))
	switch {
	case trimmed == "":
		return plainType("0", "0", "", declared)
	case scale.CmpAbs(big.NewInt(1000)) > 0:
		return schemas.Text
	}
	places := int(scale.Int64())
	var typ arrow.DataType
	switch {
	case places <= 0:
		typ = plainType(sign(s)+trimmed+strings.Repeat("0", -places), trimmed+strings.Repeat("0", -places), "", declared)
	case places >= len(trimmed):
		typ = plainType(s, "0", strings.Repeat("0", places-len(trimmed))+trimmed, declared)
	default:
		typ = plainType(s, trimmed[:len(trimmed)-places], trimmed[len(trimmed)-places:], declared)
	}
	if (typ == schemas.Text || declared == kindFloat) && oracleFloat(s) {
		return schemas.Float64
	}
	return typ
}

func sign(s string) string { return s[:len(s)-len(strings.TrimPrefix(s, "-"))] }

func plainType(s, whole, fraction string, declared kind) arrow.DataType {
	if declared == kindFloat && oracleFloat(s) {
		return schemas.Float64
	}
	if fraction == "" && declared != kindDecimal {
		if _, err := strconv.ParseInt(s, 10, 64); err == nil {
			return schemas.Int64
		}
	}
	if t, ok := schemas.Decimal(int32(len(whole)), int32(len(fraction))); ok {
		return t
	}
	if _, err := strconv.ParseInt(s, 10, 64); err == nil && fraction == "" {
		return schemas.Int64
	}
	return schemas.Text
}

func oracleFloat(s string) bool {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v == 0 && strings.HasPrefix(s, "-") {
		return false
	}
	a, ok := new(big.Rat).SetString(s)
	b, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'e', -1, 64))
	return ok && a.Cmp(b) == 0
}

func rat(s string) *big.Rat {
	if mantissa, _, _ := strings.Cut(strings.ToLower(s), "e"); strings.Trim(mantissa, "-0.") == "" {
		return new(big.Rat)
	}
	r, _ := new(big.Rat).SetString(s)
	return r
}

func cell(v *node, t arrow.DataType) string {
	k := kindOf(t)
	switch {
	case v == nil || v.kind == 'n':
		return "null"
	case v.kind == '[' && k != kindList && k != kindJSON:
		return "null"
	}
	spelled := v.raw
	if v.kind == '"' {
		spelled = v.text
	}
	switch k {
	case kindText:
		return strconv.Quote(spelled)
	case kindJSON:
		return strconv.Quote(v.raw)
	case kindBool:
		return strconv.FormatBool(spelled == "true" || spelled == "1")
	case kindInt, kindDecimal:
		return rat(spelled).RatString()
	case kindFloat:
		f, _ := strconv.ParseFloat(spelled, 64)
		return strconv.FormatFloat(f, 'g', -1, 64)
	case kindDate:
		return spelled
	case kindTime:
		at, _ := oracleTime(spelled)
		return at.UTC().Format(time.RFC3339Nano)
	case kindList:
		var b bytes.Buffer
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(cell(item, t.(*arrow.ListType).Elem()))
		}
		b.WriteByte(']')
		return b.String()
	}
	return "?"
}

func arrowCell(a arrow.Array, row int) string {
	if a.IsNull(row) {
		return "null"
	}
	switch a := a.(type) {
	case *array.String:
		return strconv.Quote(a.Value(row))
	case *array.Boolean:
		return strconv.FormatBool(a.Value(row))
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10)
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		r, _ := new(big.Rat).SetString(a.Value(row).ToString(scale))
		return r.RatString()
	case *array.Float64:
		return strconv.FormatFloat(a.Value(row), 'g', -1, 64)
	case *array.Date32:
		return a.Value(row).ToTime().Format("2006-01-02")
	case *array.Timestamp:
		return time.UnixMicro(int64(a.Value(row))).UTC().Format(time.RFC3339Nano)
	case *array.List:
		begin, end := a.ValueOffsets(row)
		var b bytes.Buffer
		b.WriteByte('[')
		for i := begin; i < end; i++ {
			if i > begin {
				b.WriteByte(',')
			}
			b.WriteString(arrowCell(a.ListValues(), int(i)))
		}
		b.WriteByte(']')
		return b.String()
	}
	return fmt.Sprintf("? %T", a)
}
