package sandbox

import (
	"fmt"
	"strconv"
)

// builder fills the world, table by table. Rows may refer to rows of earlier tables.
type builder struct {
	w     *world
	seed  uint64
	scale int
}

// The method fixed() creates n rows, independent of the scale. Each row gets the id first, then its columns, then the
// columns of gen.made that it does not have yet.
func (b *builder) fixed(name string, n int, row func(g *gen, i int) object) {
	g := newGen(b.w, b.seed, name)
	g.rows = n
	t := b.w.table(name)
	for i := 1; i <= n; i++ {
		o := append(obj("id", i), row(g, i)...)
		for _, m := range g.made(i) {
			if _, own := o.lookup(m.name); !own {
				o = append(o, m)
			}
		}
		t.add(o)
	}
}

func (b *builder) grown(name string, n int, row func(g *gen, i int) object) {
	b.fixed(name, n*b.scale, row)
}

func (b *builder) people() {
	staff, clients := 40, 30
	b.fixed("roles", 5, func(g *gen, i int) object {
		name := []string{"company", "staff", "client", "vendor", "hr"}[i-1]
		return obj("name", name, "label", g.null(3, "Role "+name), "guard_name", "web")
	})
	b.fixed("permissions", 18, func(g *gen, i int) object {
		return obj("name", g.pick("manage", "create", "edit", "delete")+"-"+g.pick("leads", "deals", "invoices", "users"),
			"guard_name", "web", "role_id", 1+i%5)
	})
	b.grown("users", staff+clients+22, func(g *gen, i int) object {
		name, kind := g.name(), "vendor"
		switch {
		case i == 1:
			kind = "company"
		case i <= staff:
			kind = "staff"
		case i <= staff+clients*b.scale:
			kind = "client"
		}
		return obj("name", name, "slug", fmt.Sprintf("user-%d", i), "email", mailOf(name, i), "mobile_no", g.null(4, g.phone()),
			"email_verified_at", g.null(3, iso(g.stamp(i))), "type", kind, "avatar", g.null(3, fmt.Sprintf("users/%d.png", i)),
			"lang", g.pick("en", "de", "ar"), "active_plan", g.null(2, 1+g.IntN(3)), "plan_expire_date", g.null(2, g.after(today, 300)),
			"trial_expire_date", g.pick("2026-12-01", "0000-00-00"), "is_trial_done", strconv.Itoa(g.flag()),
			"storage_limit", number(g.pick("100", "100.5", "0")), "is_disable", g.flag(), "is_enable_login", 1,
			"active_status", g.flag(), "last_seen_at", g.null(4, iso(epoch)), "creator_id", 1)
	})
	b.grown("login_log", 130, func(g *gen, i int) object {
		where := obj("browser", g.pick("Firefox", "Chrome", "Safari"), "os", g.pick("Linux", "Windows"), "country", g.pick(countries...))
		var details any = where
		if g.chance(2) {
			details = string(phpStyle.append(nil, where))
		}
		return obj("user_id", 1+g.IntN(staff), "ip", fmt.Sprintf("192.0.2.%d", g.IntN(255)), "date", g.stamp(i).Format("2006-01-02 15:04:05"),
			"details", details, "type", g.pick("login", "logout"))
	})
	b.fixed("api_keys", 4, func(g *gen, i int) object {
		return obj("name", g.pick("zap", "desk", "warehouse")+"-"+strconv.Itoa(i), "abilities", []any{list{"*"}, `["read"]`}[i%2],
			"last_used_at", g.null(3, iso(epoch)))
	})
}
