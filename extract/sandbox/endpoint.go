package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

type endpoint struct {
	route   string
	dialect dialect
	auth    auth
	message string

	from  string
	where string // conditions: see parseWhere
	month string // name of a date column; set if the endpoint shows the rows of one month: see inMonth
	order string
	view  string

	pager pager
	size  int
	fixed bool // the endpoint ignores per_page
	keyed int  // from this page on, the list is an object with numeric keys; 0: never

	board    *board
	lists    []namedList                           // several lists in one object, by name
	idParam  string                                // parameter with the id; only this row is shown
	object   func(w *world, p params) (any, error) // returns the payload of an endpoint that shows no rows
	wrap     func(w *world, p params, payload any) any
	required string // required parameters
	media    string // content type if not JSON; the field object then returns the bytes

	conds   []condition
	shows   view
	shown   func(key string)                 // receives the key of each row on a page; may be nil
	stale   bool                             // shows one record as it was before its last change
	shuffle func(n int, swap func(i, j int)) // shuffles the rows before they are sorted; may be nil
}

type board struct {
	of    string
	where string
	view  string
	as    string // each container (such as a stage) has its rows in this member; if it is "", the payload is {"name of a container": [rows]}
	by    string // column with the id of a row's container

	conds []condition
	shows view
}

type namedList struct {
	name, from, where, view string
}

type record struct {
	key     string
	object  object
	context any // on a board: the scalars or the name of the container; otherwise nil
}

type params map[string]string

type condition struct {
	column   string
	not      bool
	value    string
	param    string // name of the parameter to compare with; "": compare with the member value
	optional bool   // the condition is true if the request lacks the parameter
}

// parseWhere parses conditions like "type=staff status!=draft pipeline_id=$pipeline_id project_id=?project_id". $name
// and ?name stand for the value of the parameter with this name. If a request lacks the parameter after ?, the
// condition is true.
func parseWhere(text string) []condition {
	var all []condition
	for _, word := range strings.Fields(text) {
		column, value, _ := strings.Cut(word, "=")
		c := condition{value: value}
		c.column, c.not = strings.CutSuffix(column, "!")
		if name, ok := strings.CutPrefix(value, "$"); ok {
			c.param = name
		}
		if name, ok := strings.CutPrefix(value, "?"); ok {
			c.param, c.optional = name, true
		}
		all = append(all, c)
	}
	return all
}

func (c condition) holds(r object, p params) bool {
	want := c.value
	if c.param != "" {
		given, ok := p[c.param]
		if !ok && c.optional {
			return true
		}
		want = given
	}
	return (r.text(c.column) == want) != c.not
}

func (e *endpoint) compile() {
	e.shows, e.conds = parseView(e.view), parseWhere(e.where)
	if e.board != nil {
		e.board.shows, e.board.conds = parseView(e.board.view), parseWhere(e.board.where)
	}
}

func (e *endpoint) style() style { return style(e.dialect != d0 && e.dialect != dV2) }

func (e *endpoint) plain() bool {
	return e.from != "" && e.board == nil && e.idParam == "" && e.month == "" && e.shuffle == nil && !slices.ContainsFunc(e.conds, func(c condition) bool { return c.param != "" })
}

func selectRows(w *world, name string, conds []condition, p params) []object {
	all := w.table(name).rows
	if len(conds) == 0 {
		return all
	}
	var rows []object
	for _, r := range all {
		if !slices.ContainsFunc(conds, func(c condition) bool { return !c.holds(r, p) }) {
			rows = append(rows, r)
		}
	}
	return rows
}

func (e *endpoint) records(w *world, p params) []record {
	rows := e.inMonth(selectRows(w, e.from, e.conds, p), p)
	if e.shuffle != nil {
		rows = slices.Clone(rows)
		e.shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	rows = order(rows, e.order)
	if e.board != nil {
		return e.boardRecords(w, p, rows)
	}
	all := make([]record, len(rows))
	for i, r := range rows {
		all[i] = record{key: r.text("id"), object: e.shows.show(w, r)}
	}
	return all
}

// inMonth returns the rows of one month. With type=monthly, the parameters month and year select the month. The default
// is the current month.
func (e *endpoint) inMonth(rows []object, p params) []object {
	if e.month == "" {
		return rows
	}
	year, month := epoch.Year(), int(epoch.Month())
	if m, err := strconv.Atoi(p["month"]); err == nil && p["type"] == "monthly" {
		month = m
		if y, err := strconv.Atoi(p["year"]); err == nil {
			year = y
		}
	}
	shown := fmt.Sprintf("%04d-%02d-", year, month)
	return slices.DeleteFunc(slices.Clone(rows), func(r object) bool { return !strings.HasPrefix(r.text(e.month), shown) })
}

func (e *endpoint) boardRecords(w *world, p params, rows []object) []record {
	var all []record
	for _, c := range selectRows(w, e.board.of, e.board.conds, p) {
		var context any = scalars(e.board.shows.show(w, c))
		if e.board.as == "" {
			context = c.get("name")
		}
		for _, r := range rows {
			if r.text(e.board.by) == c.text("id") {
				all = append(all, record{r.text("id"), e.shows.show(w, r), context})
			}
		}
	}
	return all
}

func (e *endpoint) boardPayload(w *world, p params) any {
	rows := order(selectRows(w, e.from, e.conds, p), e.order)
	byName, columns := object{}, list{}
	for _, c := range selectRows(w, e.board.of, e.board.conds, p) {
		cards := list{}
		for _, r := range rows {
			if r.text(e.board.by) == c.text("id") {
				cards = append(cards, e.shows.show(w, r))
			}
		}
		if e.board.as != "" {
			columns = append(columns, e.board.shows.show(w, c).put(e.board.as, cards))
		} else if len(cards) > 0 {
			byName = append(byName, member{c.text("name"), cards})
		}
	}
	if e.board.as != "" {
		return columns
	}
	if len(byName) == 0 {
		return list{} // PHP writes an empty map as a list
	}
	return byName
}

func (e *endpoint) listsPayload(w *world) any {
	o := object{}
	for _, l := range e.lists {
		o = append(o, member{l.name, l.show(w)})
	}
	return o
}

func (l namedList) show(w *world) list {
	v, rows := parseView(l.view), list{}
	for _, r := range selectRows(w, l.from, parseWhere(l.where), nil) {
		rows = append(rows, v.show(w, r))
	}
	return rows
}

func (e *endpoint) single(w *world, p params) (any, error) {
	find := w.table(e.from).find
	if e.stale {
		find = w.table(e.from).previous
	}
	r, ok := find(p[e.idParam])
	if !ok || slices.ContainsFunc(e.conds, func(c condition) bool { return !c.holds(r, p) }) {
		what := strings.TrimSuffix(e.from, "s")
		return nil, &refusal{kind: missing, what: strings.ToUpper(what[:1]) + strings.ReplaceAll(what[1:], "_", " ")}
	}
	return e.shows.show(w, r), nil
}

func scalars(o object) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool {
		switch m.value.(type) {
		case object, list:
			return true
		}
		return false
	})
}

func paramsOf(path map[string]string, query map[string][]string, body []byte) params {
	p := params{}
	for name, values := range query {
		if len(values) > 0 {
			p[name] = values[0]
		}
	}
	for _, m := range bodyOf(body) {
		switch m.value.(type) {
		case object, list, nil:
		default:
			p[m.name] = textOf(m.value)
		}
	}
	maps.Copy(p, path)
	return p
}

func bodyOf(body []byte) object {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	var v map[string]any
	if decoder.Decode(&v) != nil {
		return nil
	}
	o, _ := decode(v).(object)
	return o
}

func named(name string) func(*world, params, any) any {
	return func(_ *world, _ params, payload any) any { return obj(name, payload) }
}
