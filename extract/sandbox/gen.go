package sandbox

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// today is a constant, so that the data is the same on every day.
const today = "2026-11-20"

var epoch = time.Date(2026, 11, 20, 10, 5, 0, 0, time.UTC)

// gen generates the values of one table. Each table has its own random sequence, so the size of one table does not
// affect the others.
type gen struct {
	*rand.Rand
	w    *world
	rows int
}

func newGen(w *world, seed uint64, name string) *gen {
	h := fnv.New64a()
	h.Write([]byte(name))
	return &gen{Rand: rand.New(rand.NewPCG(seed, h.Sum64())), w: w}
}

func (g *gen) pick(of ...string) string { return of[g.IntN(len(of))] }

func (g *gen) chance(n int) bool { return g.IntN(n) == 0 }

func (g *gen) null(n int, v any) any {
	if g.chance(n) {
		return nil
	}
	return v
}

func (g *gen) flag() int { return g.IntN(2) }

func (g *gen) money(from, to int) string {
	return fmt.Sprintf("%d.%02d", from+g.IntN(to-from), g.IntN(100))
}

func (g *gen) ref(name string) int {
	rows := g.w.table(name).rows
	if len(rows) == 0 {
		return 0
	}
	id, _ := rows[g.IntN(len(rows))].get("id").(int)
	return id
}

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

func (g *gen) refWhere(name, column, value string) int {
	rows := g.w.table(name).of(column, value)
	if len(rows) == 0 {
		return 0
	}
	id, _ := rows[g.IntN(len(rows))].get("id").(int)
	return id
}

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

func jsonText(ids []int) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprintf("%q", strconv.Itoa(id))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (g *gen) day(back int) string {
	return epoch.AddDate(0, 0, -g.IntN(back+1)).Format("2006-01-02")
}

func (g *gen) after(day string, days int) string {
	t, err := time.Parse("2006-01-02", day)
	if err != nil {
		return day
	}
	return t.AddDate(0, 0, 1+g.IntN(days)).Format("2006-01-02")
}

// stamp returns the creation time of row i. Groups of three rows have equal times, as after an import.
func (g *gen) stamp(i int) time.Time {
	minutes := (g.rows - i) / 3 * 173
	return epoch.Add(-time.Duration(minutes) * time.Minute)
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// The method made() returns the columns at the end of most rows. created_by is the tenant, not the author.
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
