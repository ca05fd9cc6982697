package sandbox

import (
	"fmt"
	"strings"
)

// This file has the endpoints that are not lists of rows: the signed-in user, home screens, lookups by kind, settings
// of connected services, and files.

func currentUser(w *world, _ params) (any, error) {
	r, _ := w.table("users").find("1")
	return r, nil
}

func stagesWithPipeline(w *world, p params, stages any) any {
	var pipeline any
	if r, ok := w.table("pipelines").find(p["pipeline_id"]); ok {
		pipeline = obj("id", r.get("id"), "name", r.get("name"))
	}
	return obj("pipeline_name", pipeline, "lead_stages", stages)
}

// The function recent() returns the newest rows of a table, for home screens. A reader must not mistake them for the
// whole list.
func recent(w *world, name string, n int, view string) list {
	rows, v, shown := order(w.table(name).rows, "-created_at"), parseView(view), list{}
	for _, r := range rows[:min(n, len(rows))] {
		shown = append(shown, v.show(w, r))
	}
	return shown
}

func crmHome(w *world, _ params) (any, error) {
	return obj("total_leads", len(w.table("leads").rows), "total_deals", len(w.table("deals").rows), "total_pipelines", len(w.table("pipelines").rows),
		"recentLeads", recent(w, "leads", 5, "id name created_at"), "recent_deals", recent(w, "deals", 5, "id name price"),
		"chart_data", obj("labels", list{"Mon", "Tue"}, "values", list{3, number("4.5")})), nil
}

func salesHome(w *world, _ params) (any, error) {
	days := list{}
	for _, day := range []string{"Mon", "Tue", "Wed"} {
		days = append(days, obj("day", day, "invoiceAmount", "0.00"))
	}
	return obj("totalQuotes", len(w.table("quotes").rows), "totalSalesOrders", len(w.table("sales_orders").rows),
		"invoice", obj("invoice_Draft_percentage", "12.50", "invoice_Draft_count", 3, "invoice_Partialy Paid_count", 1),
		"lineChartData", days), nil
}

func parentRecords(w *world, p params) (any, error) {
	from := map[string]string{"account": "sales_accounts", "contact": "sales_contacts", "opportunities": "opportunities"}[p["parent"]]
	if from == "" {
		return nil, &refusal{kind: missing, what: "Parent"}
	}
	return namedList{from: from, view: "id name"}.show(w), nil
}

func tasklyHome(w *world, _ params) (any, error) {
	return obj("totalProject", len(w.table("projects").rows), "totalTask", len(w.table("tasks").rows), "complate_task", len(w.table("tasks").of("stage_id", "4")),
		"recent_tasks", recent(w, "tasks", 5, "id title"), "chart_data", list{1, 2, 3}), nil
}

func supportHome(w *world, _ params) (any, error) {
	tickets := w.table("tickets")
	open := fmt.Sprint(len(tickets.of("status", "open")))
	months := object{}
	for _, m := range strings.Fields("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec") {
		months = append(months, member{m, 0})
	}
	return obj("stats", obj("totalTickets", len(tickets.rows), "openTickets", open, "closedTickets", nil), "monthlyData", months,
		"recentTickets", recent(w, "tickets", 5, "id ticket_id subject=status"), "statusData", list{obj("name", "open", "value", open)}), nil
}

func hrHome(w *world, _ params) (any, error) {
	return obj("total_employees", len(w.table("employees").rows), "present_today", 12, "recent_leaves", recent(w, "leaves", 3, "id employee_id status"),
		"recent_announcements", list{}, "is_clockin", 0, "officetime", obj("startTime", "09:00:00", "endTime", "17:30:00")), nil
}

func oldInvoice(_ *world, _ params, payload any) any {
	invoice, _ := payload.(object)
	whole := object{}
	for _, m := range invoice {
		if m.name != "items" && m.name != "vendor" {
			whole = append(whole, m)
		}
	}
	total := invoice.text("total_amount")
	return obj("invoice", whole, "vendor", invoice.get("vendor"), "items", invoice.get("items"), "invoicePayments", list{}, "bank_transfer_payments", list{},
		"sub_total", "$"+thousands(invoice.text("subtotal"), 2), "total", "$"+thousands(total, 2), "due", "$0.00")
}

func publicPlans(*world, params) (any, error) {
	plans := list{}
	for i, name := range []string{"Free", "Pro", "Business", "Agency"} {
		var modules any = "crm,sales,accounting"
		if i%2 == 1 {
			modules = list{"crm", "hr"}
		}
		plans = append(plans, obj("id", i+1, "name", name, "package_price_monthly", fmt.Sprintf("%d.00", 29*i), "package_price_yearly", fmt.Sprintf("%d.00", 290*i),
			"price_per_user_monthly", "4.50", "modules", modules, "is_free_plan", i == 0))
	}
	return plans, nil
}

func whiteLabelPlans(w *world, p params) (any, error) {
	plans, err := publicPlans(w, p)
	return obj("plans", plans), err
}

func connectStatus(*world, params) (any, error) {
	return obj("connected", true, "account_id", "acct_sandbox", "charges_enabled", 1, "payouts_enabled", "0"), nil
}

func socialPost(*world, params) (any, error) {
	return obj("enabled", "on", "networks", list{"mastodon", "bluesky"}, "default_time", "09:30"), nil
}

func notConnected(*world, params) (any, error) { return list{}, nil }

func smsService(*world, params) (any, error) {
	return obj("sender", "SANDBOX", "is_active", 1, "balance", "12.5000", "settings", obj("unicode", "yes")), nil
}

func commissions(_ *world, p params) (any, error) {
	if p["agent"] == "" {
		return nil, &refusal{kind: missing, what: "Agent"}
	}
	return obj("total", "35.50", "items", list{obj("invoice_id", 1, "amount", "20.00"), obj("invoice_id", 7, "amount", "15.50")}), nil
}

func widget(*world, params) (any, error) {
	return "<!DOCTYPE html><html><body><form id=\"lead\"><input name=\"name\"><input name=\"email\"></form></body></html>\n", nil
}

func badge(*world, params) (any, error) {
	return `<svg xmlns="http://www.w3.org/2000/svg" width="90" height="20"><text x="4" y="14">partner</text></svg>` + "\n", nil
}

func invoicePDF(w *world, p params) (any, error) {
	if _, ok := w.table("v2_invoices").find(p["id"]); !ok {
		return nil, &refusal{kind: missing, what: "invoice"}
	}
	return "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n", nil
}
