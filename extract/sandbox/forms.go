package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

type form func(w *world, r object, v any) any

var forms = map[string]form{
	"str":     func(_ *world, _ object, v any) any { return nullOr(v, textOf) },
	"int":     func(_ *world, _ object, v any) any { n, _ := strconv.Atoi(textOf(v)); return n },
	"flag":    func(_ *world, _ object, v any) any { return flag(v) },
	"strflag": func(_ *world, _ object, v any) any { return strconv.Itoa(flag(v)) },
	"bool":    func(_ *world, _ object, v any) any { return flag(v) == 1 },
	"dollar":  func(_ *world, _ object, v any) any { return "$" + thousands(textOf(v), 2) },
	"euro":    func(_ *world, _ object, v any) any { return euro(textOf(v)) },
	"whole":   func(_ *world, _ object, v any) any { return thousands(textOf(v), 0) },
	"day":     func(_ *world, _ object, v any) any { return nullOr(v, func(v any) string { return textOf(v)[:10] }) },
	"day0": func(_ *world, _ object, v any) any {
		return nullOr(v, func(v any) string { return textOf(v)[:10] + " 00:00:00" })
	},
	"nice": func(_ *world, _ object, v any) any { return reformat(v, "Jan 02, 2006") },
	"dmy":  func(_ *world, _ object, v any) any { return reformat(v, "02-01-2006") },
	"dmyhm": func(_ *world, _ object, v any) any {
		return nullOr(v, func(v any) string { return textOf(reformat(v, "02-01-2006")) + " " + textOf(v)[11:16] })
	},
	"dash": func(_ *world, _ object, v any) any { return orElse(v, "-") },
	"zero": func(_ *world, _ object, v any) any { return orElse(v, 0) },
	"plain": func(_ *world, _ object, v any) any {
		return nullOr(v, func(v any) string { return stripTags(textOf(v)) })
	},
	"count": func(_ *world, _ object, v any) any { return len(idsOf(v)) },
	"url": func(_ *world, _ object, v any) any {
		return nullOr(v, func(v any) string { return assetHost + textOf(v) })
	},
	"tasks":   taskRatio("lead_tasks", "lead_id", false),
	"dtasks":  taskRatio("deal_tasks", "deal_id", true),
	"percent": percentDone,
	"overdue": displayStatus,

	"strings":      func(_ *world, _ object, v any) any { return idStrings(v) },
	"minutes":      func(_ *world, _ object, v any) any { return nullOr(v, func(v any) string { return textOf(v)[:5] }) },
	"ago":          func(_ *world, _ object, _ any) any { return "3 days ago" },
	"hours":        func(_ *world, _ object, v any) any { return textOf(v) + " hours" },
	"before":       func(_ *world, _ object, v any) any { return neighbour(v, -1) },
	"behind":       func(_ *world, _ object, v any) any { return neighbour(v, 1) },
	"quotelabel":   func(_ *world, _ object, v any) any { return quoteStatus[v.(int)] },
	"quotenumber":  func(_ *world, _ object, v any) any { return fmt.Sprintf("#QUO%05d", v) },
	"daysleft":     func(_ *world, _ object, v any) any { return daysLeft(textOf(v)) },
	"stocked":      stocked,
	"taxnames":     taxNames,
	"firstsource":  firstSource,
	"projecttasks": projectTasks,
	"permission":   func(_ *world, r object, v any) any { return obj("role_id", r.get("role_id"), "permission_id", v) },
	"pivot":        func(_ *world, _ object, v any) any { return obj("department_id", v, "announcement_id", 1) },
	"balance":      func(_ *world, _ object, v any) any { return obj("total", 10, "used", v, "remaining", 10-v.(int)) },
}

const assetHost = "https://files.example.test/uploads/"

func nullOr(v any, f func(any) string) any {
	if v == nil {
		return nil
	}
	return f(v)
}

func orElse(v, other any) any {
	if v == nil || v == "" {
		return other
	}
	return v
}

func flag(v any) int {
	switch textOf(v) {
	case "", "0", "false", "off", "no":
		return 0
	}
	return 1
}

// thousands separates groups of three digits with commas, like PHP's number_format.
func thousands(decimal string, fraction int) string {
	whole, rest, _ := strings.Cut(decimal, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction == 0 {
		return sign + whole
	}
	return sign + whole + "." + (rest + "00")[:fraction]
}

func euro(decimal string) string {
	return strings.NewReplacer(",", ".", ".", ",").Replace(thousands(decimal, 2)) + " €"
}

func reformat(v any, layout string) any {
	t, err := time.Parse("2006-01-02", (textOf(v) + "          ")[:10])
	if err != nil {
		return v
	}
	return t.Format(layout)
}

func stripTags(html string) string {
	var b strings.Builder
	inside := false
	for _, r := range html {
		switch {
		case r == '<':
			inside = true
		case r == '>':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "&nbsp;", " ")
}

func taskRatio(tableName, column string, totalFirst bool) form {
	return func(w *world, r object, _ any) any {
		tasks := w.table(tableName).of(column, r.text("id"))
		done := doneTasks(tasks)
		if totalFirst {
			return fmt.Sprintf("%d/%d", len(tasks), done)
		}
		return fmt.Sprintf("%d/%d", done, len(tasks))
	}
}

func doneTasks(tasks []object) int {
	done := 0
	for _, t := range tasks {
		if t.text("status") == "Complete" {
			done++
		}
	}
	return done
}

func percentDone(w *world, r object, _ any) any {
	tasks := w.table("lead_tasks").of("lead_id", r.text("id"))
	if len(tasks) == 0 {
		return "0%"
	}
	return fmt.Sprintf("%d%%", 100*doneTasks(tasks)/len(tasks))
}

// displayStatus returns the status of a document. The platform computes it at each reading.
func displayStatus(_ *world, r object, _ any) any {
	due, status := r.text("due_date"), r.text("status")
	if (status == "posted" || status == "partial") && due < today {
		return "overdue"
	}
	return status
}

var quoteStatus = []string{"Open", "Close", "Confirmed", "Cancelled"}

func idStrings(v any) any {
	l := list{}
	for _, id := range idsOf(v) {
		l = append(l, id)
	}
	return l
}

func neighbour(v any, step int) any {
	stage, _ := v.(int)
	other := stage + step
	if (other-1)/stagesEach != (stage-1)/stagesEach || other < 1 {
		return 0
	}
	return other
}

func daysLeft(day string) any {
	end, err := time.Parse("2006-01-02", day)
	if err != nil {
		return nil
	}
	return int(end.Sub(epoch).Hours() / 24)
}

func stocked(w *world, r object, _ any) any {
	sum := 0
	for _, s := range w.table("stock").of("product_id", r.text("id")) {
		n, _ := strconv.Atoi(strings.Replace(s.text("quantity"), ".", "", 1))
		sum += n
	}
	return number(strconv.FormatFloat(float64(sum)/100, 'f', -1, 64))
}

func taxNames(w *world, _ object, v any) any {
	var names []string
	for _, id := range idsOf(v) {
		if tax, ok := w.table("taxes").find(id); ok {
			names = append(names, tax.text("tax_name"))
		}
	}
	return strings.Join(names, ",")
}

// firstSource shows the source with the first id. The platform casts the list of ids to a number, which keeps only
// that id.
func firstSource(w *world, _ object, v any) any {
	for _, id := range idsOf(v) {
		source, _ := w.table("sources").find(id)
		return source.get("name")
	}
	return nil
}

func projectTasks(w *world, r object, _ any) any {
	tasks, done := w.table("tasks").of("project_id", r.text("id")), 0
	for _, t := range tasks {
		if t.text("stage_id") == "4" {
			done++
		}
	}
	return fmt.Sprintf("%d/%d", done, len(tasks))
}
