package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/schemas"
)

// appendValue appends a stored value of type t to a batch.
func appendValue(b array.Builder, t arrow.DataType, v driver.Value) error {
	if v == nil {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		switch v := v.(type) {
		case bool:
			b.Append(v)
			return nil
		case int64:
			b.Append(v != 0)
			return nil
		}
	case *array.Int64Builder:
		if v, ok := v.(int64); ok {
			b.Append(v)
			return nil
		}
	case *array.Float64Builder:
		switch v := v.(type) {
		case float64:
			b.Append(v)
			return nil
		case int64:
			b.Append(float64(v))
			return nil
		}
	case *array.BinaryBuilder:
		if v, ok := v.([]byte); ok {
			b.Append(v)
			return nil
		}
	}
	if text, ok := v.(string); ok {
		return appendText(b, t, text)
	}
	if b, ok := b.(*array.StringBuilder); ok {
		b.Append(fmt.Sprint(v))
		return nil
	}
	return fmt.Errorf("the value %v is not of type %s; write CAST(column AS TEXT) to read it", v, dialect{}.Type(t))
}

// appendText appends a value that is stored as text.
func appendText(b array.Builder, t arrow.DataType, text string) (err error) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(text)
	case *array.Decimal128Builder:
		d := t.(*arrow.Decimal128Type)
		var n decimal128.Num
		if n, err = decimal128.FromString(text, d.Precision, d.Scale); err == nil {
			b.Append(n)
		}
	case *array.Date32Builder:
		var day time.Time
		if day, err = time.Parse(time.DateOnly, text); err == nil {
			b.Append(arrow.Date32FromTime(day))
		}
	case *array.TimestampBuilder:
		var at time.Time
		if at, err = parseTime(text); err == nil {
			b.Append(arrow.Timestamp(at.UnixMicro()))
		}
	case *array.ListBuilder:
		err = appendList(b, t.(*arrow.ListType).Elem(), text)
	case *array.BooleanBuilder:
		var v bool
		if v, err = strconv.ParseBool(text); err == nil {
			b.Append(v)
		}
	case *array.Int64Builder:
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil {
			b.Append(n)
		}
	case *array.Float64Builder:
		var n float64
		if n, err = strconv.ParseFloat(text, 64); err == nil {
			b.Append(n)
		}
	default:
		err = fmt.Errorf("no text is of type %s", dialect{}.Type(t))
	}
	if err != nil {
		return fmt.Errorf("read %s %q: %w", strings.ToLower(dialect{}.Type(t)), text, err)
	}
	return nil
}

func appendList(b *array.ListBuilder, elem arrow.DataType, text string) error {
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		return err
	}
	b.Append(true)
	for _, item := range items {
		text := string(item)
		switch {
		case text == "null":
			b.ValueBuilder().AppendNull()
			continue
		case text[0] == '"' && !schemas.SameType(elem, schemas.JSON):
			if err := json.Unmarshal(item, &text); err != nil {
				return err
			}
		}
		if err := appendText(b.ValueBuilder(), elem, text); err != nil {
			return err
		}
	}
	return nil
}

// parseTime parses a time with or without a fraction. Time zones can make years of five digits, which [time.Parse]
// does not accept.
func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	var year, month, day, hour, minute, second, micros int
	if _, err := fmt.Sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &year, &month, &day, &hour, &minute, &second, &micros); err != nil {
		return time.Time{}, err
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, 1000*micros, time.UTC), nil
}
