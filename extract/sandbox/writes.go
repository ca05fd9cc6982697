package sandbox

func writeTable() map[string]write {
	all := map[string]write{}
	crmWrites(all)
	salesWrites(all)
	documentWrites(all)
	accountingWrites(all)
	goodsWrites(all)
	projectWrites(all)
	supportWrites(all)
	peopleWrites(all)
	outerWrites(all)
	return all
}

func trio(all map[string]write, d dialect, table, needs, createPath, updatePath, deletePath string) {
	all["POST "+createPath] = write{dialect: d, do: create, table: table, required: needs}
	all["POST "+updatePath] = write{dialect: d, do: update, table: table, id: param(updatePath)}
	all["DELETE "+deletePath] = write{dialect: d, do: remove, table: table, id: param(deletePath)}
}

func param(path string) string {
	parts := segments(path)
	for i := len(parts) - 1; i >= 0; i-- {
		if p := parts[i]; p[0] == '{' {
			return p[1 : len(p)-1]
		}
	}
	return ""
}

func crmWrites(all map[string]write) {
	for _, kind := range []string{"lead", "deal"} {
		trio(all, d1, kind+"s", "name", "/api/"+kind+"/create", "/api/"+kind+"/update/{id}", "/api/"+kind+"/delete/{id}")
		trio(all, d1, kind+"_stages", "name pipeline_id", "/api/"+kind+"-stage/create", "/api/"+kind+"-stage/update/{id}", "/api/"+kind+"-stage/delete/{id}")
		trio(all, d1, kind+"_tasks", "name "+kind+"_id", "/api/"+kind+"-task/create", "/api/"+kind+"-task/update/{id}", "/api/"+kind+"-task/delete/{id}")
		trio(all, d1, kind+"_calls", "subject "+kind+"_id", "/api/"+kind+"-call/store", "/api/"+kind+"-call/update/{call_id}", "/api/"+kind+"-call/delete/{call_id}")
		for path, table := range map[string]string{"discussion": "_discussions", "email": "_emails", "file": "_files"} {
			all["POST /api/"+kind+"-"+path+"/store/{"+kind+"_id}"] = write{dialect: d1, do: create, table: kind + table, link: kind + "_id"}
		}
		all["DELETE /api/"+kind+"-file/{"+kind+"_id}/delete/{file_id}"] = write{dialect: d1, do: remove, table: kind + "_files", id: "file_id"}
	}
	all["POST /api/lead/create"] = write{dialect: d1, do: create, table: "leads", required: "name email"}
	trio(all, d1, "pipelines", "name", "/api/pipeline/create", "/api/pipeline/update/{id}", "/api/pipeline/delete/{id}")
	trio(all, d1, "labels", "name pipeline_id", "/api/label/create", "/api/label/update/{id}", "/api/label/delete/{id}")
	trio(all, d1, "sources", "name", "/api/source/create", "/api/source/update/{id}", "/api/source/delete/{id}")
	all["POST /api/lead/lead-create-update"] = write{dialect: d1, do: save, table: "leads", id: "lead_id", required: "name"}
	all["POST /api/lead/lead-delete"] = write{dialect: d1, do: remove, table: "leads", id: "lead_id"}
	all["POST /api/lead/lead-stage-create-update"] = write{dialect: d1, do: save, table: "lead_stages", id: "stage_id", required: "name"}
	all["POST /api/lead/lead-stage-update"] = write{dialect: d1, do: update, table: "leads", id: "lead_id", required: "lead_id stage_id"}
	all["POST /api/lead/pipeline-create-update"] = write{dialect: d1, do: save, table: "pipelines", id: "pipeline_id", required: "name"}
	all["POST /api/lead/convert-to-deal/{id}"] = write{dialect: d1, do: convert, table: "leads", id: "id", newTable: "deals", backLink: "is_converted"}
}

func salesWrites(all map[string]write) {
	trio(all, d3, "meetings", "name", "/api/sales/meeting/store", "/api/sales/meeting/update/{id}", "/api/sales/meeting/destroy/{id}")
	trio(all, d3, "opportunities", "name", "/api/sales/opportunity/store", "/api/sales/opportunities/update/{id}", "/api/sales/opportunities/delete/{id}")
	trio(all, d3, "quotes", "name", "/api/sales/quotes/store", "/api/sales/quotes/update/{id}", "/api/sales/quotes/destroy/{id}")
	trio(all, d3, "sales_orders", "name", "/api/sales/sales-order/store", "/api/sales/sales-order/update/{id}", "/api/sales/sales-order/delete/{id}")
}

func documentWrites(all map[string]write) {
	step := func(path, table, status string) {
		all["POST "+path] = write{dialect: d1, do: update, table: table, id: param(path), sets: obj("status", status)}
	}
	trio(all, d1, "sales_invoices", "customer_id invoice_date", "/api/sales-invoice/create", "/api/sales-invoice/update/{invoice_id}", "/api/sales-invoice/delete/{invoice_id}")
	trio(all, d1, "purchase_invoices", "vendor_id invoice_date", "/api/purchase-invoice/create", "/api/purchase-invoice/update/{invoice_id}", "/api/purchase-invoice/delete/{invoice_id}")
	trio(all, d2, "sales_proposals", "customer_id", "/api/sales-proposal/create", "/api/sales-proposal/update/{proposal_id}", "/api/sales-proposal/delete/{proposal_id}")
	step("/api/sales-invoice/post/{invoice_id}", "sales_invoices", "posted")
	step("/api/purchase-invoice/post/{invoice_id}", "purchase_invoices", "posted")
	step("/api/sales-proposal/accept/{proposal_id}", "sales_proposals", "accepted")
	step("/api/sales-proposal/reject/{proposal_id}", "sales_proposals", "rejected")
	step("/api/sales-proposal/sent/{proposal_id}", "sales_proposals", "sent")
	for path, table := range map[string]string{"sales-invoice-return": "sales_returns", "purchase-return": "purchase_returns"} {
		all["POST /api/"+path+"/create"] = write{dialect: d1, do: create, table: table, required: "original_invoice_id"}
		all["DELETE /api/"+path+"/delete/{return_id}"] = write{dialect: d1, do: remove, table: table, id: "return_id"}
		step("/api/"+path+"/approve/{return_id}", table, "approved")
		step("/api/"+path+"/complete/{return_id}", table, "completed")
	}
	all["POST /api/sales-proposal/convert-to-invoice/{proposal_id}"] = write{dialect: d1, do: convert, table: "sales_proposals", id: "proposal_id",
		sets: obj("converted_to_invoice", true), newTable: "sales_invoices", backLink: "invoice_id"}
}

func accountingWrites(all map[string]write) {
	for _, name := range []string{"customers", "vendors", "bank-accounts", "expenses", "revenues"} {
		table, needs := name, "amount"
		switch name {
		case "bank-accounts":
			table, needs = "bank_accounts", "account_name"
		case "customers", "vendors":
			needs = "company_name"
		}
		trio(all, d2, table, needs, "/api/"+name+"/create", "/api/"+name+"/update/{id}", "/api/"+name+"/delete/{id}")
	}
	for _, name := range []string{"expenses", "revenues"} {
		all["POST /api/"+name+"/approve/{id}"] = write{dialect: d2, do: update, table: name, id: "id", sets: obj("status", "approved", "approved_by", 1)}
		all["POST /api/"+name+"/post/{id}"] = write{dialect: d2, do: update, table: name, id: "id", sets: obj("status", "posted")}
	}
}

func goodsWrites(all map[string]write) {
	trio(all, d2, "items", "name", "/api/product/create", "/api/product/update/{id}", "/api/product/delete/{id}")
	trio(all, d2, "categories", "name", "/api/product/category/create", "/api/product/category/update/{id}", "/api/product/category/delete/{id}")
	trio(all, d2, "taxes", "tax_name", "/api/tax/create", "/api/tax/update/{id}", "/api/tax/delete/{id}")
	trio(all, d2, "units", "unit_name", "/api/unit/create", "/api/unit/update/{id}", "/api/unit/delete/{id}")
	trio(all, d1, "warehouses", "name", "/api/warehouse/create", "/api/warehouse/update/{warehouse_id}", "/api/warehouse/delete/{warehouse_id}")
	all["POST /api/product-stock/add"] = write{dialect: d2, do: create, table: "stock", required: "product_id warehouse_id quantity"}
	all["POST /api/transfer/create"] = write{dialect: d1, do: create, table: "stock_transfers", required: "product_id quantity"}
	all["DELETE /api/transfer/delete/{transfer_id}"] = write{dialect: d1, do: remove, table: "stock_transfers", id: "transfer_id"}
}

func projectWrites(all map[string]write) {
	for _, kind := range []string{"task", "bug"} {
		stage := "/api/project/" + kind + "-stage/"
		trio(all, d2, kind+"_stages", "name", stage+"create", stage+"update/{id}", stage+"delete/{id}")
	}
	trio(all, d2, "milestones", "title project_id", "/api/project/milestone/create", "/api/project/milestone/update/{id}", "/api/project/milestone/delete/{id}")
	trio(all, d1, "projects", "name", "/api/projects/create", "/api/project/update/{id}", "/api/project/delete/{id}")
	all["POST /api/project/{id}/task/create"] = write{dialect: d2, do: create, table: "tasks", required: "title"}
	all["POST /api/project/{id}/task/update/{task_id}"] = write{dialect: d2, do: update, table: "tasks", id: "task_id"}
	all["DELETE /api/project/{project_id}/task/delete/{task_id}"] = write{dialect: d2, do: remove, table: "tasks", id: "task_id"}
	all["POST /api/project/bug/create/{project_id}"] = write{dialect: d2, do: create, table: "bugs", required: "title", link: "project_id"}
	all["POST /api/project/{project_id}/bug/update/{bug_id}"] = write{dialect: d2, do: update, table: "bugs", id: "bug_id"}
	all["DELETE /api/project/{project_id}/bug/delete/{bug_id}"] = write{dialect: d2, do: remove, table: "bugs", id: "bug_id"}
	all["POST /api/project/bug/{bug_id}/comment/create"] = write{dialect: d2, do: create, table: "bug_comments", link: "bug_id"}
	all["DELETE /api/project/bug/{id}/comment/delete"] = write{dialect: d2, do: remove, table: "bug_comments", id: "id"}
	all["POST /api/project/task/{task_id}/comment/create"] = write{dialect: d2, do: create, table: "task_comments", link: "task_id"}
	all["DELETE /api/project/task/comment/delete/{comment_id}"] = write{dialect: d2, do: remove, table: "task_comments", id: "comment_id"}
	all["POST /api/project/task-subtask/create/{task_id}"] = write{dialect: d2, do: create, table: "subtasks", link: "task_id"}
	all["POST /api/project/task-subtask/update/{subtask_id}"] = write{dialect: d2, do: update, table: "subtasks", id: "subtask_id"}
	all["DELETE /api/project/file/delete/{id}"] = write{dialect: d2, do: remove, table: "project_files", id: "id"}

	all["POST /api/taskly/project-create-update"] = write{dialect: d1, do: save, table: "projects", id: "project_id", required: "name"}
	all["POST /api/taskly/project-delete"] = write{dialect: d1, do: remove, table: "projects", id: "project_id", required: "project_id"}
	all["POST /api/taskly/project-status-update"] = write{dialect: d1, do: update, table: "projects", id: "project_id", required: "project_id status"}
	all["DELETE /api/taskly/project-file-delete/{id}"] = write{dialect: d1, do: remove, table: "project_files", id: "id"}
	all["POST /api/taskly/task-create-update"] = write{dialect: d1, do: save, table: "tasks", id: "task_id", required: "title"}
	all["POST /api/taskly/task-delete"] = write{dialect: d1, do: remove, table: "tasks", id: "task_id", required: "task_id"}
	all["POST /api/taskly/task-stage-update"] = write{dialect: d1, do: update, table: "tasks", id: "task_id", required: "task_id stage_id"}
}

func supportWrites(all map[string]write) {
	desk := "POST /api/support-ticket/"
	all[desk+"ticket/store"] = write{dialect: d1, do: create, table: "tickets", required: "name email subject"}
	all[desk+"ticket/update/{ticket_id}"] = write{dialect: d1, do: update, table: "tickets", id: "ticket_id"}
	all[desk+"ticket/note/store/{ticket_id}"] = write{dialect: d1, do: update, table: "tickets", id: "ticket_id", required: "note"}
	all[desk+"ticket/delete/{ticket_id}"] = write{dialect: d1, do: remove, table: "tickets", id: "ticket_id"}
	all[desk+"ticket/add-reply/{ticket_id}"] = write{dialect: d1, do: create, table: "ticket_replies", link: "ticket_id"}
	all[desk+"faqs/store"] = write{dialect: d1, do: create, table: "faqs", required: "title"}
	all[desk+"faq/update/{faq_id}"] = write{dialect: d1, do: update, table: "faqs", id: "faq_id"}
	all[desk+"faq/delete/{faq_id}"] = write{dialect: d1, do: remove, table: "faqs", id: "faq_id"}
	all[desk+"knowledge/store"] = write{dialect: d1, do: create, table: "knowledges", required: "title"}
	all[desk+"knowledge/update/{knowledge_id}"] = write{dialect: d1, do: update, table: "knowledges", id: "knowledge_id"}
	all[desk+"knowledge/delete/{knowledge_id}"] = write{dialect: d1, do: remove, table: "knowledges", id: "knowledge_id"}
}

func peopleWrites(all map[string]write) {
	trio(all, d2, "employees", "basic_salary", "/api/employee/create", "/api/employee/update/{id}", "/api/employee/delete/{id}")
	trio(all, d1, "attendance", "employee_id date", "/api/attendance/create", "/api/attendance/update/{attendance_id}", "/api/attendance/delete/{attendance_id}")
	trio(all, d1, "leaves", "employee_id start_date end_date", "/api/leave-application/create", "/api/leave-application/update/{leaveapplication_id}",
		"/api/leave-application/delete/{leaveapplication_id}")
	all["POST /api/leave-application/update-status/{leaveapplication_id}"] = write{dialect: d1, do: update, table: "leaves", id: "leaveapplication_id", required: "status"}
	all["POST /api/hrm/leave-request"] = write{dialect: d1, do: create, table: "leaves", required: "leave_type_id start_date end_date"}
	trio(all, d1, "users", "name email", "/api/user/store", "/api/user/update/{id}", "/api/user/delete/{id}")
	all["POST /api/v1/settings/api-keys"] = write{dialect: d0, do: create, table: "api_keys", required: "name"}
	all["DELETE /api/v1/settings/api-keys/{id}"] = write{dialect: d0, do: remove, table: "api_keys", id: "id"}
}

func outerWrites(all map[string]write) {
	all["POST /api/v1/customers"] = write{dialect: d0, do: create, table: "customers", required: "company_name"}
	all["PUT /api/v1/customers/{id}"] = write{dialect: d0, do: update, table: "customers", id: "id"}
	all["POST /api/v1/invoices"] = write{dialect: d0, do: create, table: "sales_invoices", required: "customer_id"}
	all["POST /v2/contacts"] = write{dialect: dV2, do: create, table: "contacts", required: "name"}
	all["PUT /v2/contacts/{id}"] = write{dialect: dV2, do: update, table: "contacts", id: "id"}
	all["DELETE /v2/contacts/{id}"] = write{dialect: dV2, do: remove, table: "contacts", id: "id"}
	all["POST /v2/invoices"] = write{dialect: dV2, do: create, table: "v2_invoices", required: "amount currency"}
	all["POST /v2/invoices/{id}/send"] = write{dialect: dV2, do: update, table: "v2_invoices", id: "id", sets: obj("status", "open"), action: "sent"}
	all["PUT /v2/tickets/{id}"] = write{dialect: dV2, do: update, table: "v2_tickets", id: "id"}
}

type write struct {
	dialect  dialect
	do       changeKind
	table    string
	id       string // parameter or member of the body with the row's id
	required string
	sets     object // members that the change sets, for example when a document is posted
	action   string // action in the webhook event; "": the status in sets, or "updated"
	link     string // for create: the column that gets the id in the path
	newTable string // for convert: the table of the new row
	backLink string // for convert: the column that gets the new row's id
}

type changeKind int

const (
	answerOnly changeKind = iota // reports success and changes nothing
	create
	update
	save // updates if there is an id, otherwise creates
	remove
	convert // changes one row, and creates another row from it
)
