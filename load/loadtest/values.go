package loadtest

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

func decimal(p, s int32) arrow.DataType { return &arrow.Decimal128Type{Precision: p, Scale: s} }

// samples has values at the limits of each column type.
var samples = []struct {
	name  string
	t     arrow.DataType
	cells []string
}{
	{"flag", schemas.Bool, []string{"true", "false"}},
	{"number", schemas.Int64, []string{
		"0", "-1", "2147483648", "-9223372036854775808", "9223372036854775807", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
	}},
	{"money", decimal(16, 2), []string{"0.00", "-0.01", "-99999999999999.99", "99999999999999.99", "0.10"}},
	{"fine", decimal(38, 19), []string{"1.0000000000000000001", "-9999999999999999999.9999999999999999999"}},
	{"finest", decimal(38, 24), []string{"0.000000000000000000000001", "-99999999999999.999999999999999999999999"}},
	{"big", decimal(38, 0), []string{
		"99999999999999999999999999999999999999", "-99999999999999999999999999999999999999", "18446744073709551615", "18446744073709551616", "9223372036854775808", "-9223372036854775809",
	}},
	{"real", schemas.Float64, []string{"0", "1e+300", "-0.1", "0.1", "5e-324", "1.7976931348623157e+308", "-1.7976931348623157e+308", "2.2250738585072014e-308", "1.2345678912345679e+08"}},
	{"day", schemas.Date, []string{
		"1970-01-01", "1969-12-31", "2026-02-28", "2024-02-29", "1900-02-28", "2000-02-29", "0001-01-01", "9999-12-31", "1582-10-04", "1582-10-10", "1582-10-15", "2038-01-20",
	}},
	{"moment", schemas.Timestamp, []string{
		"1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2026-11-20T08:00:00Z", "2026-11-20T08:00:00.000001Z", "2026-11-20T08:00:00.500000Z", "1883-11-18T12:03:58Z",
		"0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0000-12-31T00:01:00Z", "10000-01-01T23:58:59.999999Z", // a time zone can move the first and the last day to these times
	}},
	{"words", schemas.Text, []string{
		"", " ", "Zoë 🦊 \u202e", "it's \"quoted\"", "line\nbreak\ttab\r\n", `back\slash \n \u0041`, "null", "NULL", `\N`, "\x01\x1f\x7f", "\ufeff\u2028\ufffd", "e\u0301 é",
		strings.Repeat("1234567890", 6), "-0." + strings.Repeat("9", 60), "0x1F", "1e400", "'; DROP TABLE people; --", "%s %d ${x} {{y}}", "a\x00b", "\x00", strings.Repeat("long ", 5000),
	}},
	{"document", schemas.JSON, []string{
		`{"a":[1,2.50,null],"b":"\u00e9"}`, `[]`, `{}`, `"text"`, `12345678901234567890.5`, `null`, `true`, `"\u0000"`, `{"a":1,"a":2}`, `-0.0`, `1e400`, `"\ud83e\udd8a"`,
	}},
	{"numbers", arrow.ListOf(schemas.Int64), []string{"[]", "[1,2,3]", "[1,null]", "[9223372036854775807,-9223372036854775808]"}},
	{"moneys", arrow.ListOf(decimal(16, 2)), []string{"[1.50,-0.01]"}},
	{"texts", arrow.ListOf(schemas.Text), []string{`[]`, `["a","","ü\"x"]`, `[null]`, `["null",null,"NULL","{}","a,b","\\"]`}},
	{"flags", arrow.ListOf(schemas.Bool), []string{"[true,false]", "[null,true]"}},
	{"days", arrow.ListOf(schemas.Date), []string{`["2026-02-28"]`}},
	{"moments", arrow.ListOf(schemas.Timestamp), []string{`["2026-11-20T08:00:00Z"]`}},
}

func everything(keep func(text string) bool) (schemas.Table, []Row) {
	columns := []arrow.Field{column("id", schemas.Int64)}
	var rows []Row
	for _, s := range samples {
		columns = append(columns, column(s.name, s.t))
		for _, cell := range s.cells {
			if keep == nil || keep(cell) {
				rows = append(rows, with(runID(1), len(rows), fmt.Sprint("h", len(rows)), Row{"id": fmt.Sprint(len(rows)), s.name: cell}))
			}
		}
	}
	return root("everything", []string{"id"}, columns...), rows
}
