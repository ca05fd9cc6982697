package sandbox

import (
	"fmt"
	"strings"
)

func (b *builder) projects() {
	stage := func(names ...string) func(*gen, int) object {
		return func(g *gen, i int) object {
			return obj("name", names[i-1], "color", g.pick(colours...), "complete", i == len(names), "order", i-1)
		}
	}
	b.fixed("task_stages", 4, stage("Todo", "In Progress", "Review", "Done"))
	b.fixed("bug_stages", 3, stage("Unconfirmed", "Confirmed", "Résolu"))
	b.grown("projects", 13, func(g *gen, i int) object {
		start := g.day(300)
		return obj("name", g.company(), "status", g.pick("Ongoing", "Onhold", "Finished"), "description", g.note(), "start_date", start,
			"end_date", g.null(5, g.after(start, 200)), "budget", g.money(1000, 90000), "members", comma(g.staff(4)),
			"clients", comma([]int{g.refWhere("users", "type", "client")}))
	})
	b.grown("milestones", 24, func(g *gen, i int) object {
		return obj("project_id", g.ref("projects"), "title", g.sentence(), "status", g.pick("complete", "incomplete"), "start_date", g.day(90),
			"end_date", g.after(today, 90), "cost", g.money(10, 5000), "progress", g.null(2, fmt.Sprint(g.IntN(101))), "summary", g.note())
	})
	b.grown("tasks", 64, func(g *gen, i int) object { return g.card("milestone_id", g.null(2, g.ref("milestones")), 1+g.IntN(3)) })
	b.grown("bugs", 34, func(g *gen, i int) object { return g.card("order", g.IntN(5), 1+g.IntN(2)) })
	b.grown("subtasks", 30, func(g *gen, i int) object {
		return obj("task_id", g.ref("tasks"), "name", g.sentence(), "due_date", g.after(today, 30), "is_done", g.flag())
	})
	for _, kind := range []string{"task", "bug"} {
		b.grown(kind+"_comments", 30, func(g *gen, i int) object {
			return obj(kind+"_id", g.ref(kind+"s"), "comment", g.note(), "user_id", g.ref("users"))
		})
	}
	b.grown("project_files", 15, func(g *gen, i int) object {
		return obj("project_id", g.ref("projects"), "file_name", fmt.Sprintf("plan %d.pdf", i), "file_path", fmt.Sprintf("projectsplan %d.pdf", i))
	})
	b.grown("project_activity", 70, func(g *gen, i int) object {
		var remark any = strings.ReplaceAll(g.sentence(), "<workshop>", "workshop")
		if g.chance(2) {
			remark = string(phpStyle.append(nil, obj("title", g.sentence(), "new_status", "Done")))
		}
		return obj("project_id", g.ref("projects"), "log_type", g.pick("Move", "Create Task", "Upload File"), "remark", remark,
			"time", g.pick("2 days ago", "5 minutes ago"), "user_id", g.ref("users"))
	})
}

func (g *gen) staff(n int) []int {
	ids := []int{}
	for range 1 + g.IntN(n) {
		ids = append(ids, 1+g.IntN(40))
	}
	return ids
}

func (g *gen) card(extra string, value any, stage int) object {
	start := g.day(100)
	var assigned any = jsonText(g.staff(3))
	switch g.IntN(3) {
	case 0:
		assigned = comma(g.staff(3))
	case 1:
		assigned = list{fmt.Sprint(1 + g.IntN(40))}
	}
	return obj("title", g.sentence(), "description", g.note(), "priority", g.pick("Low", "Medium", "High"), "start_date", start,
		"end_date", g.null(6, g.after(start, 60)), "stage_id", stage, "project_id", g.ref("projects"), extra, value, "assigned_to", assigned)
}

func (b *builder) support() {
	b.fixed("ticket_categories", 5, func(g *gen, i int) object {
		return obj("name", []string{"Billing", "Bug", "Question", "Café", "الدعم"}[i-1], "color", g.pick(colours...))
	})
	b.grown("tickets", 84, func(g *gen, i int) object {
		name := g.name()
		var files any = list{}
		switch g.IntN(3) {
		case 0:
			files = "[{\"name\":\"a.pdf\",\"path\":\"a.pdf\"}]"
		case 1:
			files = nil
		}
		return obj("ticket_id", fmt.Sprint(1763712000+i/2), "name", name, "email", mailOf(name, i),
			"account_type", g.pick("custom", "staff", "client", "vendor"), "subject", g.sentence(),
			"status", g.pick("In Progress", "On Hold", "Closed", "open"), "description", g.note(), "note", g.null(2, g.note()),
			"category", g.ref("ticket_categories"), "attachments", files, "user_id", g.null(2, g.ref("users")))
	})
	b.grown("ticket_replies", 40, func(g *gen, i int) object {
		return obj("ticket_id", g.ref("tickets"), "sender", g.pick("admin", "user", "7"), "description", g.note(), "attachments", "[]")
	})
	b.grown("faqs", 23, func(g *gen, i int) object { return obj("title", g.sentence()+"?", "description", g.note()) })
	b.fixed("knowledge_categories", 3, func(_ *gen, i int) object { return obj("title", []string{"Setup", "Payments", "Émail"}[i-1]) })
	b.grown("knowledges", 31, func(g *gen, i int) object {
		return obj("title", g.sentence(), "description", g.note(), "category", []any{"1", "2", "3", "No Category"}[g.IntN(4)])
	})
}

func (b *builder) versioned() {
	b.prefixed("contacts", "con", 118, func(g *gen, i int) object {
		name := g.name()
		tags := list{}
		for range g.IntN(4) {
			tags = append(tags, g.pick("vip", "", "newsletter", "重要", "a/b"))
		}
		return obj("object", "contact", "name", name, "email", g.null(6, mailOf(name, i)), "tags", tags, "owner_id", fmt.Sprintf("usr_%d", 1+g.IntN(40)),
			"custom_fields", obj("Tier", g.pick("gold", "silver"), "VAT №", g.null(2, "DE12345")), "created", g.unix(i), "livemode", true, "deleted", false)
	})
	b.prefixed("v2_invoices", "inv", 60, func(g *gen, i int) object {
		amount := 100 + g.IntN(900_000)
		lines := list{obj("id", fmt.Sprintf("li_%d", i), "amount", amount, "description", g.pick(objects...))}
		return obj("object", "invoice", "number", fmt.Sprintf("V-%05d", i), "customer", b.w.table("contacts").rows[g.IntN(100)].text("id"), "amount", amount,
			"amount_due", g.IntN(2)*amount, "currency", g.pick("usd", "eur", "jpy", "kwd"), "status", g.pick("draft", "open", "paid", "void"),
			"lines", obj("object", "list", "data", lines, "has_more", false, "url", fmt.Sprintf("/v2/invoices/inv_%d/lines", i)),
			"due_date", g.null(3, g.after(today, 30)), "created", g.unix(i), "livemode", true)
	})
	b.prefixed("v2_tickets", "tkt", 75, func(g *gen, i int) object {
		return obj("object", "ticket", "subject", g.sentence(), "status", g.pick("open", "pending", "solved"), "assignee_id", g.null(3, fmt.Sprintf("usr_%d", 1+g.IntN(40))),
			"contact", g.null(4, b.w.table("contacts").rows[g.IntN(100)].text("id")), "csat", g.null(2, obj("score", 1+g.IntN(5), "comment", g.null(2, g.pick(scripts...)))),
			"created", g.unix(i), "updated", g.unix(i)*1000)
	})
}

func (g *gen) unix(i int) int { return int(g.stamp(i).Unix()) }

func (b *builder) prefixed(name, prefix string, n int, row func(g *gen, i int) object) {
	g := newGen(b.w, b.seed, name)
	g.rows = n * b.scale
	t := b.w.table(name)
	for i := 1; i <= g.rows; i++ {
		t.add(append(obj("id", fmt.Sprintf("%s_%s%d", prefix, g.suffix(5), i)), row(g, i)...))
	}
	t.next = g.rows + 1
}
