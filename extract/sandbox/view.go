package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// A view lists the members of a row that an endpoint shows. It consists of words:
//
//	NAME   NAME|FORM        a column, or its value in another form (see forms)
//	*                       every column
//	-NAME                   leaves out a column of *
//	OUT=NAME|FORM           a column under the name OUT
//	OUT:TABLE@COLUMN{VIEW}  the row of TABLE whose id is in COLUMN, or null; OUT:TABLE@COLUMN?{VIEW}: [] instead of null
//	OUT:TABLE@COLUMN.NAME   only the column NAME of that row
//	OUT:TABLE<COLUMN{VIEW}  all rows of TABLE that have this row's id in COLUMN
//	OUT:TABLE<COLUMN#       the number of these rows
//	OUT:TABLE*COLUMN{VIEW}  the rows of TABLE whose ids are listed in COLUMN
type view []viewItem

type viewItem struct {
	out    string
	all    bool // *
	drop   bool // -name
	column string
	form   form
	link   *link
}

type link struct {
	table  string
	kind   byte // @ one, < many, * listed
	column string
	view   view   // nil: pluck or the number of rows is shown
	pluck  string // the only column to show
	absent any    // value if there is no row
}

func parseView(text string) view {
	var v view
	for _, word := range words(text) {
		v = append(v, parseItem(word))
	}
	return v
}

func words(text string) []string {
	var all []string
	depth, start := 0, -1
	for i := 0; i <= len(text); i++ {
		end := i == len(text)
		if !end && text[i] == '{' {
			depth++
		}
		if !end && text[i] == '}' {
			depth--
		}
		space := end || (depth == 0 && strings.ContainsRune(" \n\t", rune(text[i])))
		switch {
		case space && start >= 0:
			all = append(all, text[start:i])
			start = -1
		case !space && start < 0:
			start = i
		}
	}
	return all
}

func parseItem(word string) viewItem {
	if word == "*" {
		return viewItem{all: true}
	}
	if name, ok := strings.CutPrefix(word, "-"); ok {
		return viewItem{drop: true, column: name}
	}
	head, _, _ := strings.Cut(word, "{")
	if out, target, ok := strings.Cut(head, ":"); ok {
		return viewItem{out: out, link: parseLink(target, word[len(head):])}
	}
	out, column, renamed := strings.Cut(word, "=")
	if !renamed {
		column = out
	}
	column, formName, hasForm := strings.Cut(column, "|")
	if !renamed {
		out = column
	}
	item := viewItem{out: out, column: column}
	if hasForm {
		item.form = forms[formName]
		if item.form == nil {
			panic("sandbox: unknown form in view: " + word)
		}
	}
	return item
}

func parseLink(target, braces string) *link {
	i := strings.IndexAny(target, "@<*")
	if i < 0 {
		panic("sandbox: no link in view: " + target)
	}
	l := &link{table: target[:i], kind: target[i], column: target[i+1:]}
	if column, ok := strings.CutSuffix(l.column, "?"); ok {
		l.column, l.absent = column, list{}
	}
	l.column, l.pluck, _ = strings.Cut(l.column, ".")
	l.column = strings.TrimSuffix(l.column, "#")
	if braces != "" {
		l.view = parseView(braces[1 : len(braces)-1])
	}
	return l
}

func (v view) show(w *world, r object) object {
	shown := make(object, 0, len(v)+8)
	for _, item := range v {
		switch {
		case item.all:
			shown = append(shown, r...)
		case item.drop:
			shown = slices.DeleteFunc(shown, func(m member) bool { return m.name == item.column })
		case item.link != nil:
			shown = shown.put(item.out, item.link.follow(w, r))
		case item.form != nil:
			shown = shown.put(item.out, item.form(w, r, r.get(item.column)))
		default:
			shown = shown.put(item.out, r.get(item.column))
		}
	}
	return shown
}

// put sets a member of o, or appends it. No other goroutine may use o meanwhile.
func (o object) put(name string, value any) object {
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

func (l *link) follow(w *world, r object) any {
	t := w.tables[l.table]
	if t == nil {
		panic(fmt.Sprintf("sandbox: view links to unknown table %q", l.table))
	}
	switch l.kind {
	case '<':
		return l.many(w, t.of(l.column, r.text("id")))
	case '*':
		var rows []object
		for _, id := range idsOf(r.get(l.column)) {
			if row, ok := t.find(id); ok {
				rows = append(rows, row)
			}
		}
		return l.many(w, rows)
	}
	row, ok := t.find(r.text(l.column))
	if !ok {
		return l.absent
	}
	if l.pluck != "" {
		return row.get(l.pluck)
	}
	return l.view.show(w, row)
}

func (l *link) many(w *world, rows []object) any {
	if l.view == nil {
		return len(rows)
	}
	shown := make(list, 0, len(rows))
	for _, row := range rows {
		shown = append(shown, l.view.show(w, row))
	}
	return shown
}
