package sandbox

import (
	"math/rand/v2"
	"strings"
)

type event struct {
	id      string
	kind    string // event type: "<module>.<action>"
	subject string
	body    []byte
}

// announcement describes the events of one table. Their data has only some of the columns, names instead of ids, and
// dates like 20-11-2026.
type announcement struct {
	module string // first part of the event type
	view   string
	under  string // if set, the row is in this member of the event's data; older modules do this
	empty  bool   // the event's data is always an empty list

	shows view
}

const dated = " created_at|dmyhm"

func announcements() map[string]*announcement {
	all := announcementTable()
	for _, a := range all {
		a.shows = parseView(a.view)
	}
	return all
}

func announcementTable() map[string]*announcement {
	const document = " total_amount status created_at|dmyhm"
	const staff = "id employee_id "
	return map[string]*announcement{
		"contacts":    {module: "contact", view: "id object name email"},
		"v2_invoices": {module: "invoice", view: "id amount currency"},
		"v2_tickets":  {module: "ticket", view: "id subject status assignee_id"},

		"leads": {module: "lead", under: "lead", view: "id name email subject pipeline:pipelines@pipeline_id.name stage:lead_stages@stage_id.name " +
			"sources|firstsource date|dmy" + dated},
		"deals":            {module: "deal", under: "deal", view: "id name price pipeline:pipelines@pipeline_id.name stage:deal_stages@stage_id.name status" + dated},
		"pipelines":        {module: "pipeline", view: "id name"},
		"lead_stages":      {module: "lead_stage", view: "id name pipeline:pipelines@pipeline_id.name"},
		"deal_stages":      {module: "deal_stage", view: "id name pipeline:pipelines@pipeline_id.name"},
		"labels":           {module: "label", view: "id name color"},
		"sources":          {module: "source", view: "id name"},
		"lead_tasks":       {module: "lead_task", view: "id name lead:leads@lead_id.name date|dmy time|minutes priority status"},
		"deal_tasks":       {module: "deal_task", view: "id name deal:deals@deal_id.name date|dmy time|minutes priority status"},
		"quotes":           {module: "quote", view: "id name account:sales_accounts@account_id.name"},
		"sales_orders":     {module: "sales_order", view: "id name account:sales_accounts@account_id.name"},
		"opportunities":    {module: "opportunity", view: "id name amount stage:opportunity_stages@opportunity_stage_id.name"},
		"meetings":         {module: "meeting", view: "id name status"},
		"sales_invoices":   {module: "sales_invoice", view: "id invoice_number invoice_date|dmy customer:users@customer_id.name" + document},
		"sales_proposals":  {module: "sales_proposal", under: "sales_proposal_status", view: "id customer:users@customer_id.name" + document},
		"sales_returns":    {module: "sales_return", view: "id customer:users@customer_id.name" + document},
		"purchase_returns": {module: "purchase_return", view: "id vendor:users@vendor_id.name" + document},
		"purchase_invoices": {module: "purchase_invoice",
			view: "id invoice_number invoice_date|dmy vendor:users@vendor_id.name" + document},
		"customers":     {module: "customer", view: "id company_name user:users@user_id.name" + dated},
		"vendors":       {module: "vendor", view: "id company_name user:users@user_id.name" + dated},
		"bank_accounts": {module: "bank_account", view: "id account_name bank_name"},
		"expenses":      {module: "expense", view: "id amount status category:expense_categories@category_id.category_name"},
		"revenues":      {module: "revenue", view: "id amount status category:revenue_categories@category_id.category_name"},
		"items":         {module: "product", view: "id name sku sale_price" + dated},
		"categories":    {module: "product_category", view: "id name"},
		"taxes":         {module: "tax", view: "id tax_name rate"},
		"units":         {module: "unit", view: "id unit_name"},
		"warehouses":    {module: "warehouse", view: "id name city"},
		"stock_transfers": {module: "transfer",
			view: "id product:items@product_id.name from:warehouses@from_warehouse.name to:warehouses@to_warehouse.name quantity date|dmy"},
		"projects":     {module: "project", view: "id name status start_date|dmy end_date|dmy"},
		"tasks":        {module: "task", under: "task", view: "id title priority project:projects@project_id.name stage:task_stages@stage_id.name"},
		"bugs":         {module: "bug", under: "bug", view: "id title priority project:projects@project_id.name stage:bug_stages@stage_id.name"},
		"milestones":   {module: "milestone", view: "id title project:projects@project_id.name status"},
		"subtasks":     {module: "subtask", empty: true},
		"tickets":      {module: "support_ticket", view: "id ticket_id name email subject status category:ticket_categories@category.name"},
		"faqs":         {module: "faq", view: "id title"},
		"knowledges":   {module: "knowledge", view: "id title"},
		"employees":    {module: "employee", view: staff + "user:users@user_id.name branch:branches@branch_id.branch_name"},
		"attendance":   {module: "attendance", view: staff + "date|dmy status"},
		"leaves":       {module: "leave", view: staff + "start_date|dmy end_date|dmy status leave_type:leave_types@leave_type_id.name"},
		"users":        {module: "user", view: "id name email type"},
		"api_keys":     {module: "api_key", view: "id name"},
		"task_stages":  {module: "task_stage", view: "id name"},
		"bug_stages":   {module: "bug_stage", view: "id name"},
		"bug_comments": {module: "bug_comment", view: "id comment bug:bugs@bug_id.title"},
	}
}

func eventID(random *rand.Rand) string {
	const letters = "0123456789ABCDEFGHJKLMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz"
	var b strings.Builder
	b.WriteString("evt_")
	for range 20 {
		b.WriteByte(letters[random.IntN(len(letters))])
	}
	return b.String()
}

// notify announces a change of a row. The caller holds the lock of the world.
func (s *Server) notify(w *world, table, action string, row object) {
	a := s.announced[table]
	if a == nil || !s.hub.hasSubscribers() {
		return
	}
	s.hub.publish(a.event(s.hub.id(), w, action, row, 0))
}

func (a *announcement) event(id string, w *world, action string, row object, size int) event {
	e := event{id: id, kind: a.module + "." + action, subject: row.text("id")}
	if a.empty {
		e.subject = ""
		e.body = phpStyle.append(nil, obj("id", id, "type", e.kind, "data", list{}))
		return e
	}
	data := a.shows.show(w, row)
	if a.under != "" {
		data = obj(a.under, data)
	}
	e.body = phpStyle.append(nil, obj("id", id, "type", e.kind, "data", data))
	if lacking := size - len(e.body) - len(`,"note":""`); lacking > 0 {
		data = append(data, member{"note", strings.Repeat("x", lacking)})
		e.body = phpStyle.append(nil, obj("id", id, "type", e.kind, "data", data))
	}
	return e
}
