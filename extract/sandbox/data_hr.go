package sandbox

import "fmt"

func (b *builder) hr() {
	b.organisation()
	b.workforce()
	b.absence()
	b.events()
	b.careers()
}

func (b *builder) organisation() {
	named := func(name, column string, of ...string) {
		b.fixed(name, len(of), func(_ *gen, i int) object { return obj(column, of[i-1]) })
	}
	named("branches", "branch_name", "Berlin", "São Paulo", "Remote")
	b.fixed("departments", 6, func(g *gen, i int) object {
		return obj("department_name", []string{"Sales", "R&D", "Support", "Küche", "Finance", "人事"}[i-1], "branch_id", 1+i%3)
	})
	b.fixed("designations", 7, func(g *gen, i int) object {
		return obj("designation_name", g.pick("Manager", "Engineer", "Agent")+" "+fmt.Sprint(i), "department_id", 1+i%6, "branch_id", 1+i%3)
	})
	b.fixed("shifts", 3, func(_ *gen, i int) object {
		return obj("shift_name", []string{"Day", "Late", "Night"}[i-1], "start_time", []string{"09:00:00", "14:00:00", "22:00:00"}[i-1],
			"end_time", []string{"17:30:00", "22:00:00", "06:00:00"}[i-1], "is_night_shift", i == 3)
	})
	b.fixed("document_types", 4, func(g *gen, i int) object {
		return obj("document_name", []string{"Contract", "Passport", "Zeugnis", "Visa"}[i-1], "is_required", g.flag(), "description", g.note())
	})
	named("award_types", "name", "Best team", "Ten years")
	named("event_types", "name", "Party", "Training")
}

func (b *builder) workforce() {
	b.grown("employees", 34, func(g *gen, i int) object {
		return obj("employee_id", fmt.Sprintf("EMP2026%04d", i), "date_of_birth", fmt.Sprintf("%d-%02d-%02d", 1960+g.IntN(45), 1+g.IntN(12), 1+g.IntN(28)),
			"gender", g.pick("Male", "Female", "Other"), "shift", 1+g.IntN(3), "attendance_policy", nil, "date_of_joining", g.day(2000),
			"employment_type", fmt.Sprint(g.IntN(3)), "address_line_1", g.pick(streets...), "address_line_2", nil, "city", g.pick(cities...),
			"state", g.null(2, g.pick(states...)), "country", g.pick(countries...), "postal_code", fmt.Sprintf("%05d", g.IntN(99999)),
			"emergency_contact_name", g.name(), "emergency_contact_number", g.phone(), "bank_name", g.pick("Nordbank", "Banque É."),
			"account_number", fmt.Sprintf("%012d", g.IntN(1_000_000_000)), "tax_payer_id", g.null(2, "00"+fmt.Sprint(i)), "basic_salary", g.money(1500, 9000),
			"hours_per_day", "8.00", "days_per_week", "5.00", "rate_per_hour", g.money(12, 90), "user_id", 1+i, "branch_id", 1+g.IntN(3),
			"department_id", 1+g.IntN(6), "designation_id", 1+g.IntN(7))
	})
	b.grown("attendance", 210, func(g *gen, i int) object {
		day := epoch.AddDate(0, 0, -i/8).Format("2006-01-02")
		out := []any{day + " 17:30:00", day + " 18:05:12", nil, "00:00:00"}[g.IntN(4)]
		return obj("employee_id", 2+g.IntN(20), "shift_id", 1+g.IntN(3), "date", day, "clock_in", day+" 09:00:00", "clock_out", out,
			"break_hour", "0.50", "total_hour", g.money(4, 9), "overtime_hours", "0.00", "overtime_amount", g.money(0, 20),
			"status", g.pick("present", "half day", "absent"), "notes", g.null(2, g.note()))
	})
}

func (b *builder) absence() {
	b.fixed("leave_types", 5, func(g *gen, i int) object {
		return obj("name", []string{"Sick", "Annual", "Parental", "Unpaid", "Überstunden"}[i-1], "description", g.note(), "max_days_per_year", 5*i,
			"is_paid", i != 4, "color", g.pick(colours...))
	})
	b.grown("leaves", 47, func(g *gen, i int) object {
		start := g.day(200)
		return obj("employee_id", 2+g.IntN(30), "leave_type_id", g.null(8, 1+g.IntN(5)), "start_date", start, "end_date", g.after(start, 9), "total_days", g.pick("1", "2.5", "7"),
			"status", g.pick("pending", "approved", "rejected"), "reason", g.note(), "approver_comment", g.null(2, g.sentence()),
			"attachment", g.null(2, "avatar.png"))
	})
	b.grown("leave_balances", 60, func(g *gen, i int) object {
		return obj("employee_id", 2+(i-1)/5, "leave_type_id", 1+(i-1)%5, "total", 5*(1+(i-1)%5), "used", g.IntN(5), "remaining", g.IntN(9))
	})
	b.fixed("holidays", 24, func(g *gen, i int) object {
		if i == 2 || i == 3 { // the platform allows two equal rows
			return obj("name", "Founders' day", "start_date", "2026-03-01", "end_date", "2026-03-01", "holiday_type", "public", "is_paid", 1, "description", nil)
		}
		day := g.day(300)
		return obj("name", g.pick("Neujahr", "Eid", "Carnaval", "Diwali", "元日"), "start_date", day, "end_date", g.after(day, 2), "holiday_type", g.pick("public", "company"),
			"is_paid", g.flag(), "description", g.note())
	})
}

func (b *builder) events() {
	b.grown("announcements", 11, func(g *gen, i int) object {
		day := g.day(60)
		return obj("title", g.sentence(), "description", g.note(), "start_date", day, "end_date", g.after(day, 9), "status", g.pick("active", "draft"),
			"department_ids", comma(g.refs("departments", 3)), "approved_by", g.null(2, 1))
	})
	b.grown("events", 19, func(g *gen, i int) object {
		day := g.day(200)
		return obj("title", g.sentence(), "description", g.note(), "event_type_id", 1+i%2, "start_date", day, "end_date", g.after(day, 3), "start_time", "09:00:00",
			"end_time", "10:30:00", "location", g.null(2, g.pick(cities...)), "status", g.pick("pending", "approved"),
			"department_ids", comma(g.refs("departments", 2)), "approved_by", g.null(2, 1+g.IntN(9)))
	})
	b.grown("hrm_documents", 14, func(g *gen, i int) object {
		return obj("title", g.sentence(), "description", g.note(), "document_type_id", 1+i%4, "file_path", fmt.Sprintf("hrm/doc %d.pdf", i),
			"effective_date", g.day(300), "status", g.pick("pending", "approve", "reject"), "uploaded_by", 1+g.IntN(9))
	})
	b.grown("acknowledgments", 20, func(g *gen, i int) object {
		return obj("employee_id", 2+g.IntN(30), "document_id", g.ref("hrm_documents"), "status", g.pick("pending", "acknowledged"),
			"acknowledged_at", g.null(2, g.day(90)+" 10:00:00"), "note", g.null(2, g.note()))
	})
}

func (b *builder) careers() {
	set := func(name string, n int, row func(g *gen, o object) object) {
		b.grown(name, n, func(g *gen, i int) object {
			return row(g, obj("employee_id", 2+g.IntN(30), "description", g.note(), "status", g.pick("pending", "approved", "rejected")))
		})
	}
	place := func(g *gen, prefix string) object {
		return obj(prefix+"branch_id", 1+g.IntN(3), prefix+"department_id", 1+g.IntN(6), prefix+"designation_id", 1+g.IntN(7))
	}
	set("awards", 12, func(g *gen, o object) object {
		return append(o, obj("award_type_id", 1+g.IntN(2), "award_date", g.day(200), "certificate", g.null(2, "award.pdf"))...)
	})
	set("promotions", 9, func(g *gen, o object) object {
		return append(append(append(o, place(g, "previous_")...), place(g, "current_")...), obj("effective_date", g.day(200), "reason", g.note())...)
	})
	set("resignations", 6, func(g *gen, o object) object {
		return append(o, obj("last_working_date", g.after(today, 60), "reason", g.sentence())...)
	})
	set("terminations", 5, func(g *gen, o object) object {
		return append(o, obj("termination_type", g.pick("layoff", "cause"), "notice_date", g.day(90), "termination_date", g.after(today, 30))...)
	})
	set("warnings", 8, func(g *gen, o object) object {
		return append(o, obj("subject", g.sentence(), "severity", g.pick("low", "high"), "warning_date", g.day(90), "warning_by", 1)...)
	})
	set("complaints", 7, func(g *gen, o object) object {
		return append(o, obj("against_employee_id", g.null(3, 2+g.IntN(30)), "subject", g.sentence(), "complaint_date", g.day(90))...)
	})
	set("employee_transfers", 8, func(g *gen, o object) object {
		return append(append(append(o, place(g, "from_")...), place(g, "to_")...), obj("transfer_date", g.day(90), "effective_date", g.after(today, 30))...)
	})
}

func (b *builder) payroll() {
	const months, paid = 6, 10
	b.fixed("payrolls", months, func(g *gen, i int) object {
		return obj("title", fmt.Sprintf("Payroll %02d/2026", 4+i), "payroll_frequency", "monthly", "pay_period_start", fmt.Sprintf("2026-%02d-01", 4+i),
			"pay_period_end", fmt.Sprintf("2026-%02d-28", 4+i), "pay_date", fmt.Sprintf("2026-%02d-28", 4+i), "total_gross_pay", g.money(20000, 60000),
			"total_deductions", g.money(100, 9000), "total_net_pay", g.money(20000, 50000), "employee_count", paid, "status", g.pick("draft", "completed"),
			"is_payroll_paid", g.pick("paid", "unpaid"), "bank_account_id", 1+g.IntN(5))
	})
	b.fixed("payroll_entries", months*paid, func(g *gen, i int) object {
		var allowances, deductions any = list{}, list{}
		if !g.chance(3) {
			allowances = obj("HRA", g.money(10, 500), "Transport & Co", g.money(10, 90))
		}
		if g.chance(2) {
			deductions = obj("Steuer", g.money(10, 500))
		}
		return obj("payroll_id", 1+(i-1)/paid, "employee_id", 2+(i-1)%paid, "basic_salary", g.money(1500, 9000), "total_allowances", g.money(0, 900),
			"total_deductions", g.money(0, 900), "gross_pay", g.money(1500, 9900), "net_pay", g.money(1500, 9000), "allowances_breakdown", allowances,
			"deductions_breakdown", deductions, "status", g.pick("paid", "unpaid"))
	})
}
