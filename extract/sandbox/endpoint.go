package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// endpoint describes one readable endpoint: which rows it shows, how it sees
// them, and in which clothes they are served. Everything that differs between
// endpoints stands in such values; the code below is the same for all.
type endpoint struct {
	route   string  // method and path template, as documented
	dialect dialect // envelope of success and failure
	auth    auth
	says    string // the envelope's message, where it has one

	from  string // table
	where string // conditions, see parseWhere
	month string // column with the date of a row, of which one month is shown; see inMonth
	order string // column, "-" in front for descending
	view  string

	pager pager
	size  int  // records a page when nothing is asked for
	fixed bool // ignores per_page
	keyed int  // first page whose data is an object with numeric keys; 0 none

	board  *board                                    // the rows stand in columns
	lists  []namedList                               // several lists in one object, by name
	one    string                                    // parameter with the id of the one row shown
	object func(w *world, p params) (any, error)     // anything else that is one object or not JSON at all
	within func(w *world, p params, payload any) any // what the payload is wrapped in
	needs  string                                    // parameters without which it answers 422
	media  string                                    // content type when not JSON; object gives its bytes

	conds []condition
	shows view
	shown func(key string)                 // told which rows a page shows; may be nil
	late  bool                             // shows one record as it was before its last change
	mood  func(n int, swap func(i, j int)) // puts rows in disorder before they are sorted; nil leaves them
}

// board spreads an endpoint's rows over containers: stages with their leads,
// pipelines with their stages, or a map of lists by name.
type board struct {
	of    string // table of the containers
	where string
	view  string
	as    string // member of the container that holds the rows; "" makes a map by name
	by    string // column of the rows with the container's id

	conds []condition
	shows view
}

// namedList is one of several lists in a payload.
type namedList struct {
	name, from, where, view string
}

// record is what one endpoint shows of one row.
type record struct {
	key     string
	object  object
	context any // scalars of the container, or its name; nil outside boards
}

// params are a request's path, query and body parameters in one, as the
// platform's framework merges them.
type params map[string]string

// condition is one comparison of a where.
type condition struct {
	column   string
	not      bool
	value    string
	param    string // compares with a parameter instead of value
	optional bool   // no parameter, no condition
}

// parseWhere compiles "type=staff status!=draft pipeline_id=$pipeline_id
// project_id=?project_id": $ takes a parameter, ? only if there is one.
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

// compile prepares an endpoint's views and conditions.
func (e *endpoint) compile() {
	e.shows, e.conds = parseView(e.view), parseWhere(e.where)
	if e.board != nil {
		e.board.shows, e.board.conds = parseView(e.board.view), parseWhere(e.board.where)
	}
}

func (e *endpoint) style() style { return style(e.dialect != d0 && e.dialect != dV2) }

// plain reports whether the endpoint shows the same rows to every request.
func (e *endpoint) plain() bool {
	return e.from != "" && e.board == nil && e.one == "" && e.month == "" && e.mood == nil && !slices.ContainsFunc(e.conds, func(c condition) bool { return c.param != "" })
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

// records are all records the endpoint has for these parameters, in its order:
// the model's own answer, before any page or envelope.
func (e *endpoint) records(w *world, p params) []record {
	rows := e.inMonth(selectRows(w, e.from, e.conds, p), p)
	if e.mood != nil {
		rows = slices.Clone(rows)
		e.mood(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
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

// inMonth are the rows of the month that is asked for: the present one unless type
// is monthly and there is a month, whose year is the present one unless there is
// another.
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

// boardPayload arranges the same rows as they are served.
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
		return list{} // PHP's empty map is a list
	}
	return byName
}

// listsPayload shows each of the endpoint's lists under its name.
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

// single shows the one row whose id stands in a parameter.
func (e *endpoint) single(w *world, p params) (any, error) {
	find := w.table(e.from).find
	if e.late {
		find = w.table(e.from).was
	}
	r, ok := find(p[e.one])
	if !ok || slices.ContainsFunc(e.conds, func(c condition) bool { return !c.holds(r, p) }) {
		what := strings.TrimSuffix(e.from, "s")
		return nil, &refusal{kind: missing, what: strings.ToUpper(what[:1]) + strings.ReplaceAll(what[1:], "_", " ")}
	}
	return e.shows.show(w, r), nil
}

// scalars are the members of a container that go along with its records.
func scalars(o object) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool {
		switch m.value.(type) {
		case object, list:
			return true
		}
		return false
	})
}

// paramsOf merges path, query and JSON body. Only scalars of a body count.
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

// bodyOf reads a JSON object; whatever else was sent counts as none.
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
