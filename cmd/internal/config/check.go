package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// Check is a check of a stream's table, with its position in the file.
type Check struct {
	At Pos
	schemas.Check
}

const (
	maxCheckName = 63
	maxChecks    = 100 // of one stream
)

// readChecks reads the checks of a stream. Each of them is a mapping with one of the kinds as a key.
func (s *Stream) readChecks(v value) {
	for _, item := range v.list() {
		if c, ok := readCheck(item); ok {
			if other := slices.IndexFunc(s.Checks, func(o Check) bool { return o.Name == c.Name }); other >= 0 {
				v.fault(c.At, "%s: two checks are called %q; give one of them a `name`", v.what, c.Name)
			}
			s.Checks = append(s.Checks, c)
		}
	}
	if len(s.Checks) > maxChecks {
		v.fault(v.pos(), "%s: more than %d checks", v.what, maxChecks)
	}
}

func readCheck(v value) (c Check, ok bool) {
	if !v.isMapping() {
		v.wrong("a mapping such as {not_null: email}")
		return c, false
	}
	c.At = v.pos()
	var kinds []string
	kind := func(k schemas.CheckKind, read func(value)) func(value) {
		return func(v value) {
			c.Kind, kinds = k, append(kinds, string(k))
			read(v)
		}
	}
	columns := func(v value) { c.Columns = checkColumns(v) }
	onFail := ""
	faults := len(v.r.faults)
	ok = v.mapping(fields{
		"not_null": kind(schemas.CheckNotNull, columns),
		"unique":   kind(schemas.CheckUnique, columns),
		"accepted": kind(schemas.CheckAccepted, c.readAccepted),
		"range":    kind(schemas.CheckRange, c.readRange),
		"fresh":    kind(schemas.CheckFresh, c.readFresh),
		"rows":     kind(schemas.CheckRows, c.readRows),
		"sql":      kind(schemas.CheckSQL, text(&c.SQL)),
		"name":     text(&c.Name),
		"on_fail":  choice(&onFail, "warn", "hold"),
	})
	if !ok || len(v.r.faults) > faults {
		return c, false
	}
	c.Hold = onFail == "hold"
	return c, c.complete(v, kinds)
}

// complete checks what the keys of a check say together, and gives the check a name.
func (c *Check) complete(v value, kinds []string) bool {
	slices.Sort(kinds)
	switch {
	case len(kinds) == 0:
		v.fault(c.At, "%s: want one of %s", v.what, oneOf(checkKinds()))
	case len(kinds) > 1:
		v.fault(c.At, "%s: a check has one kind, not %s", v.what, strings.Join(kinds, " and "))
	case c.Kind == schemas.CheckSQL && c.Name == "":
		v.fault(c.At, "%s: a check with `sql` needs a `name`", v.what)
	case len(c.Name) > maxCheckName:
		v.fault(c.At, "%s: the name %q has more than %d bytes", v.what, c.Name, maxCheckName)
	case c.Hold && !c.Kind.OfRows():
		v.fault(c.At, "%s: a check of the kind %s is about the table as a whole, and cannot hold rows back; remove `on_fail: hold`", v.what, c.Kind)
	default:
		if c.Name == "" {
			c.Name = c.defaultName()
		}
		return true
	}
	return false
}

func checkKinds() []string {
	var all []string
	for _, k := range schemas.CheckKinds() {
		all = append(all, string(k))
	}
	return all
}

// defaultName returns the name of a check that has none in the file, such as not_null(email).
func (c *Check) defaultName() string {
	if len(c.Columns) == 0 || c.Columns[0] == schemas.ColSyncedAt {
		return string(c.Kind)
	}
	return string(c.Kind) + "(" + strings.Join(c.Columns, ", ") + ")"
}

// checkColumns reads one column, or a list of columns.
func checkColumns(v value) (all []string) {
	for _, s := range v.texts() {
		if !columnPath.MatchString(s.value) {
			v.fault(s.at, "%s %q: not a column; want the name in the table, such as owner__name", v.what, s.raw)
			continue
		}
		all = append(all, s.value)
	}
	v.notEmpty(len(all))
	return all
}

// checkedColumn reads a mapping with one column, such as {status: [open, closed]}.
func (c *Check) checkedColumn(v value, read func(value)) {
	es, ok := v.entries()
	if !ok {
		return
	}
	if len(es) > 1 {
		v.fault(es[1].at, "%s: want one column; write a check for each column", v.what)
	}
	v.notEmpty(len(es))
	for _, e := range es {
		if !columnPath.MatchString(e.key) {
			v.fault(e.at, "%s %q: not a column; want the name in the table, such as owner__name", v.what, e.key)
		}
		c.Columns = []string{e.key}
		read(e.value)
	}
}

func (c *Check) readAccepted(v value) {
	c.checkedColumn(v, func(v value) {
		for _, item := range v.list() {
			if s, ok := item.scalar(); ok {
				c.Values = append(c.Values, s.value)
			}
		}
		v.notEmpty(len(c.Values))
	})
}

// limit matches the limits of a range: a number, a date or a time.
var limit = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:]+Z?)?$`)

func readLimit(to *string) func(value) {
	return func(v value) {
		*to = converted(v, "a number, a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z", func(s string) (string, bool) {
			return s, limit.MatchString(s)
		})
	}
}

func (c *Check) readRange(v value) {
	c.checkedColumn(v, func(v value) {
		if v.mapping(fields{"min": readLimit(&c.Min), "max": readLimit(&c.Max)}) && c.Min == "" && c.Max == "" && len(v.r.faults) == 0 {
			v.fault(v.pos(), "%s has neither min nor max", v.what)
		}
	})
}

// readFresh reads a greatest age, or a mapping with a column and a greatest age. Without a column, the time is that of
// the last change of a row.
func (c *Check) readFresh(v value) {
	c.Columns = []string{schemas.ColSyncedAt}
	if !v.isMapping() {
		c.Within = period(v)
		return
	}
	column := ""
	v.mapping(fields{"column": text(&column), "within": set(&c.Within, period)}, "within")
	if column == "" {
		return
	}
	if !columnPath.MatchString(column) {
		v.fault(v.pos(), "%s column %q: not a column; want the name in the table, such as created_at", v.what, column)
	}
	c.Columns = []string{column}
}

func (c *Check) readRows(v value) {
	least, most := -1, -1
	whole := func(to *int) func(value) { return number(to, 0, 1_000_000_000) }
	ok := v.mapping(fields{"min": whole(&least), "max": whole(&most), "change": set(&c.Change, percent)})
	if least >= 0 {
		c.Min = strconv.Itoa(least)
	}
	if most >= 0 {
		c.Max = strconv.Itoa(most)
	}
	if ok && c.Min == "" && c.Max == "" && c.Change == 0 && len(v.r.faults) == 0 {
		v.fault(v.pos(), "%s has none of min, max and change", v.what)
	}
}

// percent reads a share such as 30%.
func percent(v value) float64 {
	return converted(v, "a share such as 30%", func(s string) (float64, bool) {
		number, is := strings.CutSuffix(s, "%")
		f, err := strconv.ParseFloat(number, 64)
		return f, is && err == nil && 0 < f && f <= 10_000
	})
}
