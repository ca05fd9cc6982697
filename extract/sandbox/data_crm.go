package sandbox

import (
	"fmt"
	"strconv"
)

func (b *builder) crm() {
	b.pipelines()
	b.leads()
	b.deals()
}

const stagesEach = 5

func (b *builder) pipelines() {
	names := []string{"Sales", "Marketing", "Partner & Réseau"}
	b.fixed("pipelines", len(names), func(_ *gen, i int) object { return obj("name", names[i-1]) })
	stage := func(_ *gen, i int) object {
		name := []string{"Draft", "Sent", "Open", "Revised", "Declined"}[(i-1)%stagesEach]
		var place any = (i - 1) % stagesEach
		if i == 7 {
			place = nil
		}
		return obj("name", name, "order", place, "pipeline_id", 1+(i-1)/stagesEach)
	}
	b.fixed("lead_stages", len(names)*stagesEach, stage)
	b.fixed("deal_stages", len(names)*stagesEach, stage)
	b.fixed("labels", 10, func(g *gen, i int) object {
		return obj("name", g.pick("Hot", "Cold", "VIP", "On hold", "重要"), "color", g.pick(colours...), "pipeline_id", 1+i%2)
	})
	b.fixed("sources", 7, func(_ *gen, i int) object {
		return obj("name", []string{"Website", "Phone", "Fair", "Referral", "E-mail", "Café Réclame", "Import/Export"}[i-1])
	})
}

func (g *gen) stageIn(pipeline int) int { return (pipeline-1)*stagesEach + 1 + g.IntN(stagesEach-1) }

func (b *builder) leads() {
	b.grown("leads", 44, func(g *gen, i int) object {
		name := g.name()
		pipeline := 1 + min(g.IntN(5), 2)
		converted := 0
		if g.chance(9) {
			converted = 1 + g.IntN(30)
		}
		return obj("name", name, "email", mailOf(name, i), "subject", g.sentence(), "user_id", g.refWhere("users", "type", "staff"),
			"pipeline_id", pipeline, "stage_id", g.stageIn(pipeline), "sources", comma(g.refs("sources", 3)), "products", comma(g.smallIDs(4)),
			"notes", g.note(), "labels", comma(g.refs("labels", 3)), "order", g.IntN(5), "phone", g.null(4, g.phone()),
			"is_active", i != 13, "is_converted", converted, "date", g.null(9, g.day(200)),
			"follow_up_date", g.oldDate())
	})
	b.tasks("lead_tasks", "lead_id", "leads", 70)
	b.calls("lead", "leads", 40)
	b.deskWork("lead", "leads", 40)
}

func (g *gen) oldDate() any {
	switch g.IntN(12) {
	case 0:
		return "0000-00-00"
	case 1:
		return "null"
	case 2, 3, 4:
		return nil
	}
	return g.day(90)
}

// smallIDs returns at most n small ids. Rows with these ids certainly exist, also in tables that are filled later.
func (g *gen) smallIDs(n int) []int {
	ids := []int{}
	for id := 1 + g.IntN(4); len(ids) < g.IntN(n+1); id += 3 {
		ids = append(ids, id)
	}
	return ids
}

func (b *builder) deals() {
	b.grown("deals", 36, func(g *gen, i int) object {
		pipeline := 1 + min(g.IntN(6), 2)
		if i == 4 {
			pipeline = 3
		}
		return obj("name", g.pick(objects...), "price", g.money(100, 90000), "pipeline_id", pipeline, "stage_id", g.stageIn(pipeline),
			"sources", g.idList(g.refs("sources", 3)), "products", g.idList(g.smallIDs(3)), "labels", g.idList(g.refs("labels", 2)),
			"notes", g.note(), "status", g.pick("0", "Active", "Won", "Loss"), "order", g.IntN(9), "phone", g.null(3, g.phone()),
			"is_active", true)
	})
	b.tasks("deal_tasks", "deal_id", "deals", 50)
	b.calls("deal", "deals", 25)
	b.deskWork("deal", "deals", 25)
}

func (b *builder) tasks(name, column, of string, n int) {
	b.grown(name, n, func(g *gen, i int) object {
		return obj(column, g.ref(of), "name", g.sentence(), "date", g.day(60), "time", fmt.Sprintf("%02d:%02d:00", g.IntN(24), g.IntN(60)),
			"priority", []any{"Low", "Medium", "High", 1, "3"}[g.IntN(5)], "status", g.pick("On Going", "Complete"))
	})
}

func (b *builder) calls(kind, of string, n int) {
	b.grown(kind+"_calls", n, func(g *gen, i int) object {
		return obj(kind+"_id", g.ref(of), "subject", g.sentence(), "call_type", g.pick("outbound", "inbound"),
			"duration", fmt.Sprintf("00:%02d:%02d", g.IntN(60), g.IntN(60)), "user_id", g.ref("users"), "description", g.note(),
			"call_result", g.null(2, g.pick("busy", "sold")))
	})
}

func (b *builder) deskWork(kind, of string, n int) {
	b.grown(kind+"_emails", n, func(g *gen, i int) object {
		return obj(kind+"_id", g.ref(of), "to", mailOf(g.name(), i), "subject", g.sentence(), "description", g.note())
	})
	b.grown(kind+"_discussions", n, func(g *gen, i int) object {
		return obj(kind+"_id", g.ref(of), "comment", g.sentence(), "user_id", g.ref("users"))
	})
	b.grown(kind+"_files", n/2, func(g *gen, i int) object {
		return obj(kind+"_id", g.ref(of), "file_name", fmt.Sprintf("scan %d.pdf", i), "file_path", kind+"s/"+strconv.Itoa(i)+".pdf")
	})
	b.grown(kind+"_activity", n, func(g *gen, i int) object {
		var remark any = "moved the " + kind
		if g.chance(2) {
			remark = string(phpStyle.append(nil, obj("title", g.sentence(), "old_status", "Draft", "new_status", "Sent")))
		}
		return obj(kind+"_id", g.ref(of), "remark", remark, "time", g.pick("3 days ago", "2 hours ago", "1 month ago"))
	})
}
