package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// CheckRows runs a check; see [load.Checker].
func (d *Store) CheckRows(ctx context.Context, k state.Key, table string, c schemas.Check, now time.Time) (out load.CheckOutcome, there bool, err error) {
	err = d.b.Read(ctx, func(r Reader) error {
		all, err := readCatalog(ctx, d.b, r, table, load.Checks.Name)
		if err != nil {
			return err
		}
		t := all.targets(nil, []string{table})[table]
		if there = t != nil; there {
			log := all.live[load.Checks.Name]
			out, err = RunCheck(ctx, d.b, r, k, t.Table, c, log != nil && log.isTable(), now)
		}
		return err
	})
	if err != nil {
		return out, there, fmt.Errorf("check %s of %s: %w", c.Name, table, err)
	}
	return out, there, nil
}

// RunCheck runs a check on a table that a reader can query. If the table is shared, only the rows of the source are
// checked. The parameter earlier says whether the reader has the results of earlier checks of the stream k.
func RunCheck(ctx context.Context, d Dialect, r Reader, k state.Key, t schemas.Table, c schemas.Check, earlier bool, now time.Time) (load.CheckOutcome, error) {
	in := &scope{Dialect: d, traits: d.Traits(), source: k.Source}
	x := rowCheck{ctx: ctx, r: r, t: &target{Table: t, in: in}, Check: c, now: now}
	if earlier {
		x.earlier = whereSource(in, k) + " AND stream = " + in.Literal(k.Stream) + " AND check_name = " + in.Literal(c.Name)
	}
	return x.run()
}

// hold tests the checks of [load.Pass].Hold on the rows that the transaction has inserted or changed. // Invariant 2
func (x *tx) hold(ctx context.Context) error {
	name := x.of.Claim.Table
	if len(x.of.Hold) == 0 || name == "" {
		return nil
	}
	if err := x.c.read(ctx, name); err != nil {
		return err
	}
	t := x.c.targets(x.in, []string{name})[name]
	if t == nil {
		return nil
	}
	held := &load.CheckError{Table: name}
	for _, c := range x.of.Hold {
		if !c.Kind.OfRows() {
			return fmt.Errorf("check %s of %s: a check of the kind %s cannot hold rows back", c.Name, name, c.Kind)
		}
		one := rowCheck{ctx: ctx, r: x.sql.Session, t: t, Check: c, fresh: true, now: x.in.when}
		out, err := one.run()
		unfit, cannot := errors.AsType[*unfitError](err)
		switch {
		case cannot: // a later attempt would fail in the same way
			held.Failed = append(held.Failed, load.FailedCheck{Check: c, CheckOutcome: load.CheckOutcome{Rows: -1, Detail: "it cannot run: " + unfit.Error()}})
		case err != nil:
			return fmt.Errorf("check %s of %s: %w", c.Name, name, err)
		case out.Failing > 0:
			held.Failed = append(held.Failed, load.FailedCheck{Check: c, CheckOutcome: out})
		}
	}
	if held.Failed != nil {
		return held
	}
	return nil
}

// unfitError says why a check cannot test the columns that a table has.
type unfitError struct{ error }

// rowCheck is a check of one table. In its SQL, t is a row of the table.
type rowCheck struct {
	schemas.Check
	ctx     context.Context
	r       Reader
	t       *target
	fresh   bool   // only rows of this commit are checked
	earlier string // condition for the earlier results of this check; "": there are none
	now     time.Time
}

func (x *rowCheck) run() (load.CheckOutcome, error) {
	lacking := x.lacking()
	switch {
	case len(lacking) == 0:
	case !x.fresh:
		return load.CheckOutcome{}, fmt.Errorf("the table has no column %s", strings.Join(lacking, ", "))
	case x.Kind != schemas.CheckNotNull:
		return load.CheckOutcome{Rows: -1}, nil // the column has no values yet
	}
	switch x.Kind {
	case schemas.CheckUnique:
		return x.unique()
	case schemas.CheckFresh:
		return x.newest()
	case schemas.CheckRows:
		return x.size()
	case schemas.CheckNotNull, schemas.CheckAccepted, schemas.CheckRange:
		condition, err := x.failing()
		if err != nil {
			return load.CheckOutcome{}, &unfitError{err}
		}
		return x.count(condition)
	}
	return load.CheckOutcome{}, fmt.Errorf("unknown kind %q", x.Kind)
}

// lacking returns the columns of the check that the table does not have.
func (x *rowCheck) lacking() []string {
	return slices.DeleteFunc(slices.Clone(x.Columns), x.t.has)
}

// from returns a FROM item and a WHERE clause for the current rows.
func (x *rowCheck) from() string {
	where := x.t.rows() + " AND " + x.t.current("t.")
	if x.fresh {
		where += x.ofCommit("t." + schemas.ColSyncedAt)
	}
	return where
}

func (x *rowCheck) ofCommit(at string) string { return " AND " + at + " = " + x.t.in.Timestamp(x.now) }

// failing returns the condition that a row fails the check.
func (x *rowCheck) failing() (string, error) {
	if x.Kind == schemas.CheckNotNull {
		or := make([]string, len(x.Columns))
		for i, c := range x.Columns {
			if or[i] = "t." + Ident(c) + " IS NULL"; !x.t.has(c) {
				or[i] = all
			}
		}
		return "(" + strings.Join(or, " OR ") + ")", nil
	}
	column := x.Columns[0]
	of := load.TypeOf(x.t.Columns, column)
	expr, literal, err := x.operand("t."+Ident(column), of)
	if err != nil {
		return "", fmt.Errorf("column %s: %w", column, err)
	}
	if x.Kind == schemas.CheckAccepted {
		values := make([]string, len(x.Values))
		for i, v := range x.Values {
			if values[i], err = literal(v); err != nil {
				return "", fmt.Errorf("column %s: %w", column, err)
			}
		}
		return expr + " NOT IN (" + strings.Join(values, ", ") + ")", nil
	}
	if schemas.SameType(of, schemas.Text) || schemas.SameType(of, schemas.Bool) {
		return "", fmt.Errorf("column %s has the type %s; a range needs numbers, dates or times", column, schemas.TypeName(of))
	}
	var or []string
	for op, limit := range map[string]string{" < ": x.Min, " > ": x.Max} {
		if limit == "" {
			continue
		}
		value, err := literal(limit)
		if err != nil {
			return "", fmt.Errorf("column %s: %w", column, err)
		}
		or = append(or, expr+op+value)
	}
	slices.Sort(or)
	return "(" + strings.Join(or, " OR ") + ")", nil
}

// plainNumber matches the numbers that a check may compare with.
var plainNumber = regexp.MustCompile(`^-?[0-9]{1,38}(\.[0-9]{1,38})?$`)

// operand returns an expression for the value expr of type t, and a function that makes literals to compare it with.
func (x *rowCheck) operand(expr string, t arrow.DataType) (string, func(string) (string, error), error) {
	in, unfit := x.t.in, fmt.Errorf("a check cannot compare values of the type %s", schemas.TypeName(t))
	switch t.ID() {
	case arrow.INT64, arrow.FLOAT64, arrow.DECIMAL128:
		if strings.Contains(in.Type(t), "TEXT") { // SQLite stores decimals as text
			expr = "CAST(" + expr + " AS NUMERIC)"
		}
		return expr, func(v string) (string, error) {
			if !plainNumber.MatchString(v) {
				return "", fmt.Errorf("%q is not a number", v)
			}
			return v, nil
		}, nil
	case arrow.TIMESTAMP:
		return expr, func(v string) (string, error) {
			for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
				if at, err := time.Parse(layout, v); err == nil {
					return in.Timestamp(at), nil
				}
			}
			return "", fmt.Errorf("%q is neither a date nor a time such as 2026-01-31T12:00:00Z", v)
		}, nil
	case arrow.DATE32:
		return expr, func(v string) (string, error) {
			if _, err := time.Parse(time.DateOnly, v); err != nil {
				return "", fmt.Errorf("%q is not a date such as 2026-01-31", v)
			}
			return in.Literal(v), nil
		}, nil
	case arrow.BOOL, arrow.STRING:
		if schemas.SameType(t, schemas.JSON) {
			return "", nil, unfit
		}
		return in.Cast(expr, t, schemas.Text), func(v string) (string, error) { return in.Literal(v), nil }, nil
	}
	return "", nil, unfit
}

// count counts the current rows, and those for which the condition holds.
func (x *rowCheck) count(condition string) (out load.CheckOutcome, err error) {
	numbers, err := x.numbers("SELECT count(*), " + countIf(condition) + " FROM " + x.from())
	if err != nil {
		return out, err
	}
	out.Rows, out.Failing = numbers[0], numbers[1]
	if out.Failing == 0 || len(x.t.Key) == 0 {
		return out, nil
	}
	key := make([]string, len(x.t.Key))
	for i, k := range x.t.Key {
		key[i] = "t." + Ident(k)
	}
	out.Examples, err = x.texts(fmt.Sprintf("SELECT %s FROM %s AND %s ORDER BY %s LIMIT %d", x.t.keyDocument("t."), x.from(), condition, strings.Join(key, ", "), load.MostExamples))
	return out, err
}

// unique counts the rows that share their values in the columns with another row. Rows without a value in one of the
// columns do not count.
func (x *rowCheck) unique() (out load.CheckOutcome, err error) {
	var plain, columns, values []string
	where := x.t.rows() + " AND " + x.t.current("t.")
	for i, c := range x.Columns {
		expr, t := "t."+Ident(c), load.TypeOf(x.t.Columns, c)
		if _, _, err := x.operand(expr, t); err != nil {
			return out, &unfitError{fmt.Errorf("column %s: %w", c, err)}
		}
		plain = append(plain, expr)
		columns = append(columns, fmt.Sprintf("%s AS v%d", expr, i))
		values = append(values, x.t.in.JSONText(fmt.Sprintf("d.v%d", i), t))
		where += " AND " + expr + " IS NOT NULL"
	}
	group := make([]string, len(x.Columns))
	for i := range group {
		group[i] = strconv.Itoa(i + 1) // by position: a source column may have the name of an alias
	}
	having := "count(*) > 1"
	if x.fresh { // only groups with a row of this commit count, so the others are left out before they are grouped
		list := strings.Join(plain, ", ")
		where += fmt.Sprintf(" AND (%s) IN (SELECT %[1]s FROM %s)", list, where+x.ofCommit("t."+schemas.ColSyncedAt))
		having += x.ofCommit("max(t." + schemas.ColSyncedAt + ")")
	}
	several := fmt.Sprintf("(SELECT %s, count(*) AS n FROM %s GROUP BY %s HAVING %s) AS d", strings.Join(columns, ", "), where, strings.Join(group, ", "), having)
	numbers, err := x.numbers("SELECT coalesce(sum(d.n), 0) FROM " + several)
	if err != nil {
		return out, err
	}
	out.Rows, out.Failing = -1, numbers[0]
	if out.Failing == 0 {
		return out, nil
	}
	order := make([]string, len(values))
	for i := range order {
		order[i] = fmt.Sprintf("d.v%d", i)
	}
	text := concat([]string{"'['", strings.Join(values, " || ',' || "), "']'"})
	out.Examples, err = x.texts(fmt.Sprintf("SELECT %s FROM %s ORDER BY %s LIMIT %d", text, several, strings.Join(order, ", "), load.MostExamples))
	return out, err
}

// newest compares the newest time in a column with the time now.
func (x *rowCheck) newest() (out load.CheckOutcome, err error) {
	column := x.Columns[0]
	if t := load.TypeOf(x.t.Columns, column); t.ID() != arrow.TIMESTAMP {
		return out, fmt.Errorf("column %s has the type %s; fresh needs times", column, schemas.TypeName(t))
	}
	out.Rows = -1
	var newest any
	err = x.r.Query(x.ctx, "SELECT "+x.t.in.Micros("max(t."+Ident(column)+")")+" FROM "+x.from(), func(v []driver.Value) error {
		newest = v[0]
		return nil
	})
	if err != nil {
		return out, err
	}
	micros, ok := newest.(int64)
	if !ok {
		out.Failing, out.Detail = 1, "there is no row with a time in "+column
		return out, nil
	}
	at := time.UnixMicro(micros).UTC()
	if age := x.now.Sub(at); age > x.Within {
		out.Failing = 1
		out.Detail = fmt.Sprintf("the newest time in %s is %s, %s ago; the limit is %s", column, at.Format(time.RFC3339), age.Round(time.Minute), x.Within)
	}
	return out, nil
}

// size compares the number of current rows with the limits, and with the number that the last run has found.
func (x *rowCheck) size() (out load.CheckOutcome, err error) {
	numbers, err := x.numbers("SELECT count(*) FROM " + x.from())
	if err != nil {
		return out, err
	}
	out.Rows = numbers[0]
	var faults []string
	if least, err := strconv.ParseInt(x.Min, 10, 64); err == nil && out.Rows < least {
		faults = append(faults, fmt.Sprintf("%d rows, fewer than %d", out.Rows, least))
	}
	if most, err := strconv.ParseInt(x.Max, 10, 64); err == nil && out.Rows > most {
		faults = append(faults, fmt.Sprintf("%d rows, more than %d", out.Rows, most))
	}
	if x.Change > 0 && x.earlier != "" {
		before, known, err := x.before()
		if err != nil {
			return out, err
		}
		if by := 100 * float64(max(out.Rows-before, before-out.Rows)) / float64(max(before, 1)); known && before > 0 && by > x.Change {
			faults = append(faults, fmt.Sprintf("%d rows, and %d after the last run: a change of %.0f %%, more than %g %%", out.Rows, before, by, x.Change))
		}
	}
	if faults != nil {
		out.Failing, out.Detail = 1, strings.Join(faults, "; ")
	}
	return out, nil
}

// before returns the number of rows that the last run has found.
func (x *rowCheck) before() (rows int64, known bool, err error) {
	query := "SELECT row_count FROM " + x.t.in.Place(load.Checks.Name) + " WHERE " + x.earlier + ` AND row_count IS NOT NULL ORDER BY "at" DESC LIMIT 1`
	err = x.r.Query(x.ctx, query, func(v []driver.Value) error {
		rows, known = v[0].(int64)
		return nil
	})
	return rows, known, err
}

// numbers returns the numbers in the first row of a query's result.
func (x *rowCheck) numbers(query string) (all []int64, err error) {
	err = x.r.Query(x.ctx, query, func(v []driver.Value) error {
		for _, n := range v {
			text := fmt.Sprint(n)
			if b, ok := n.([]byte); ok {
				text = string(b)
			}
			i, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			all = append(all, i)
		}
		return nil
	})
	if err == nil && all == nil {
		err = errors.New("the query has no result")
	}
	return all, err
}

// texts returns the first column of a query's result.
func (x *rowCheck) texts(query string) (all []string, err error) {
	err = x.r.Query(x.ctx, query, func(v []driver.Value) error {
		text, _ := v[0].(string)
		if b, ok := v[0].([]byte); ok {
			text = string(b)
		}
		all = append(all, strings.Clone(text))
		return nil
	})
	return all, err
}
