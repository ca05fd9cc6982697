package transform

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func (c *vector) appendText(dst []byte, row int) []byte {
	switch c.kind {
	case kindText, kindJSON:
		return append(dst, c.cell(row)...)
	case kindDate:
		return time.Unix(int64(c.dates[row])*86400, 0).UTC().AppendFormat(dst, time.DateOnly)
	case kindTime:
		return time.UnixMicro(c.ints[row]).UTC().AppendFormat(dst, time.RFC3339Nano)
	}
	return c.appendJSON(dst, row)
}

func (c *vector) appendJSON(dst []byte, row int) []byte {
	switch c.kind {
	case kindBool:
		return strconv.AppendBool(dst, c.bits[row>>3]&(1<<(row&7)) != 0)
	case kindInt:
		return strconv.AppendInt(dst, c.ints[row], 10)
	case kindDecimal:
		return append(dst, c.decimals[row].ToString(c.scale)...)
	case kindFloat:
		return strconv.AppendFloat(dst, c.floats[row], 'g', -1, 64)
	case kindJSON:
		return append(dst, c.cell(row)...)
	}
	dst, _ = jsontext.AppendQuote(dst, c.appendText(nil, row)) // no error, because the text is valid UTF-8
	return dst
}
