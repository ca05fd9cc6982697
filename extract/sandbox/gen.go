package sandbox

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// today is the sandbox's calendar: data that depends on a date must not change
// because a test runs tomorrow.
const today = "2026-11-20"

// epoch is the moment the newest records were made.
var epoch = time.Date(2026, 11, 20, 10, 5, 0, 0, time.UTC)

// gen makes the values of one table. Each table draws from its own sequence, so
// that one table's size never moves another table's values.
type gen struct {
	*rand.Rand
	w    *world
	rows int // rows that the table is going to have
}

func newGen(w *world, seed uint64, name string) *gen {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &gen{Rand: rand.New(rand.NewPCG(seed, h.Sum64())), w: w}
}

func (g *gen) pick(of ...string) string { return of[g.IntN(len(of))] }

// chance is true in one of n cases.
func (g *gen) chance(n int) bool { return g.IntN(n) == 0 }

// null gives v, but null in one of n cases.
func (g *gen) null(n int, v any) any {
	if g.chance(n) {
		return nil
	}
	return v
}

// flag is 0 or 1, as uncast tinyint columns are.
func (g *gen) flag() int { return g.IntN(2) }

func (g *gen) money(from, to int) string {
	return fmt.Sprintf("%d.%02d", from+g.IntN(to-from), g.IntN(100))
}

// ref is the id of some row of another table, 0 when it is empty.
func (g *gen) ref(name string) int {
	rows := g.w.table(name).rows
	if len(rows) == 0 {
		return 0
	}
	id, _ := rows[g.IntN(len(rows))].get("id").(int)
	return id
}

// refs are up to n different ids of another table.
func (g *gen) refs(name string, n int) []int {
	rows := g.w.table(name).rows
	n = min(g.IntN(n+1), len(rows))
	ids := make([]int, 0, n)
	for _, i := range g.Perm(len(rows))[:n] {
		id, _ := rows[i].get("id").(int)
		ids = append(ids, id)
	}
	return ids
}

// refWhere is the id of a row of another table whose column has the value.
func (g *gen) refWhere(name, column, value string) int {
	rows := g.w.table(name).of(column, value)
	if len(rows) == 0 {
		return 0
	}
	id, _ := rows[g.IntN(len(rows))].get("id").(int)
	return id
}

// comma joins ids as "1,4"; none is null.
func comma(ids []int) any {
	if len(ids) == 0 {
		return nil
	}
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = strconv.Itoa(id)
	}
	return strings.Join(parts, ",")
}

// idList stores ids in one of the three forms found in one column of deals: an
// array (of numbers or strings), an object with numeric keys, a comma string.
func (g *gen) idList(ids []int) any {
	if len(ids) == 0 {
		return []any{nil, list{}}[g.IntN(2)]
	}
	kind := g.IntN(4)
	if kind == 0 {
		return comma(ids)
	}
	l, o := list{}, object{}
	for i, id := range ids {
		o = append(o, member{strconv.Itoa(2 * i), strconv.Itoa(id)})
		if kind == 1 {
			l = append(l, id)
			continue
		}
		l = append(l, strconv.Itoa(id))
	}
	if kind == 2 {
		return o
	}
	return l
}

// jsonText stores ids the way an uncast json column shows them: in a string.
func jsonText(ids []int) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprintf("%q", strconv.Itoa(id))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// day is a date up to back days before today.
func (g *gen) day(back int) string {
	return epoch.AddDate(0, 0, -g.IntN(back+1)).Format("2006-01-02")
}

// after is a date up to days after another.
func (g *gen) after(day string, days int) string {
	t, err := time.Parse("2006-01-02", day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, 1+g.IntN(days)).Format("2006-01-02")
}

// stamp is a moment of the i-th row: later rows were made later, and some were
// imported together and tie.
func (g *gen) stamp(i int) time.Time {
	minutes := (g.rows - i) / 3 * 173
	return epoch.Add(-time.Duration(minutes) * time.Minute)
}

// iso writes a moment as Laravel casts it.
func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// made are the four columns that most rows end with: created_by is the tenant,
// not the author.
func (g *gen) made(i int) object {
	created := g.stamp(i)
	updated := created
	if g.chance(3) {
		updated = created.Add(time.Duration(1+g.IntN(5000)) * time.Minute)
	}
	return obj("creator_id", 1+g.IntN(8), "created_by", 1, "created_at", iso(created), "updated_at", iso(updated))
}

func (g *gen) name() string { return g.pick(firstNames...) + " " + g.pick(lastNames...) }

func (g *gen) company() string {
	return g.pick(companyWords...) + " " + g.pick(companyWords...) + " " + g.pick(companyForms...)
}

func (g *gen) phone() string {
	return fmt.Sprintf("+%d %03d %07d", 1+g.IntN(98), g.IntN(1000), g.IntN(10_000_000))
}

func (g *gen) sentence() string { return g.pick(subjects...) + " " + g.pick(objects...) }

// note is a text as people leave it: markup, line ends, emoji, other scripts.
func (g *gen) note() any {
	switch g.IntN(7) {
	case 0:
		return nil
	case 1:
		return ""
	case 2:
		return "<p>" + g.sentence() + "&nbsp;<b>" + g.pick(objects...) + "</b></p>"
	case 3:
		return g.sentence() + "\r\n\t- " + g.sentence() + "\r\n"
	case 4:
		return g.pick(scripts...) + " " + g.sentence()
	}
	return g.sentence() + "."
}

// mailOf makes an address of a name; i keeps it unique.
func mailOf(name string, i int) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r == ' ':
			b.WriteByte('.')
		case r < 0x80 && r != '\'':
			b.WriteRune(r)
		}
	}
	return fmt.Sprintf("%s%d@%s.example.test", strings.Trim(b.String(), "."), i, []string{"mail", "corp", "shop"}[i%3])
}

func (g *gen) suffix(n int) string {
	const letters = "0123456789ABCDEFGHJKLMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[g.IntN(len(letters))]
	}
	return string(b)
}

func (g *gen) address() object {
	return obj("name", g.name(), "address_line_1", fmt.Sprintf("%d %s", 1+g.IntN(220), g.pick(streets...)),
		"address_line_2", g.null(2, ""), "city", g.pick(cities...), "state", g.null(4, g.pick(states...)),
		"country", g.pick(countries...), "zip_code", fmt.Sprintf("%05d", g.IntN(100000)))
}
