package sandbox

import "slices"

func endpointTable() []*endpoint {
	return slices.Concat(peopleEndpoints(), crmEndpoints(), salesEndpoints(), documentEndpoints(), accountingEndpoints(), goodsEndpoints(),
		projectEndpoints(), tasklyEndpoints(), supportEndpoints(), hrEndpoints(), careerEndpoints(), outerEndpoints(), versionedEndpoints())
}

const (
	user   = "id name avatar|url"
	person = "id name email avatar|url type"
	stamps = "creator_id created_by created_at updated_at"
)

func peopleEndpoints() []*endpoint {
	return []*endpoint{
		{route: "GET /api/user", dialect: d0, object: currentUser},
		{route: "GET /api/staff-user", dialect: d1, message: "Users retrieved successfully", from: "users", where: "type=staff", view: person},
		{route: "GET /api/client-user", dialect: d1, message: "Users retrieved successfully", from: "users", where: "type=client", view: person + " mobile_no"},
		{route: "GET /api/vendor-user", dialect: d2, from: "users", where: "type=vendor", view: person},
		{route: "GET /api/v1/settings/api-keys", dialect: d0, from: "api_keys", order: "-id", view: "id name abilities last_used_at created_at",
			pager: resourcePager, size: 15},
		{route: "GET /api/users", dialect: d1, message: "Users retrieved", from: "users", view: person + " mobile_no is_disable is_enable_login",
			pager: laravelPager, size: 25},
		{route: "GET /api/roles", dialect: d1, message: "Roles retrieved", from: "roles",
			view: "id name label guard_name permissions:permissions<role_id{id name guard_name pivot=id|permission}",
			wrap: func(_ *world, _ params, rows any) any { return obj("roles", rows) }},
		{route: "GET /api/users/log", dialect: d2, from: "login_log", order: "-date", view: "id user_id ip date details type", pager: simplePager, size: 30},
	}
}

func crmEndpoints() []*endpoint {
	const labels = "labels:labels*labels{id name color}"
	const cards = "id name order email subject phone follow_up_date previous_stage=stage_id|before current_stage=stage_id next_stage=stage_id|behind " +
		"total_tasks=id|tasks total_products=products|count total_sources=sources|count " + labels + " users:users*user_id{" + user + "} user_id pipeline_id stage_id"
	return []*endpoint{
		{route: "GET /api/pipelines", dialect: d2, from: "pipelines", view: "id name"},
		{route: "GET /api/lead/pipelines", dialect: d1, message: "Pipelines retrieved successfully", from: "pipelines",
			view: "id name " + stamps + " stages:lead_stages<pipeline_id{id name order}"},
		{route: "GET /api/lead-stages", dialect: d2, from: "lead_stages", view: "id name order pipeline_id",
			board: &board{of: "pipelines", view: "id name", as: "stages", by: "pipeline_id"}},
		{route: "GET /api/deal-stages", dialect: d2, from: "deal_stages", view: "id name order pipeline_id created_by",
			board: &board{of: "pipelines", view: "id name", as: "stages", by: "pipeline_id"}},
		{route: "POST /api/lead/lead-stages", dialect: d1, message: "Lead stages retrieved successfully", from: "lead_stages", where: "pipeline_id=$pipeline_id",
			order: "order", view: "*", wrap: stagesWithPipeline},
		{route: "GET /api/labels", dialect: d2, from: "labels", view: "id name color pipeline_id", board: &board{of: "pipelines", by: "pipeline_id"}},
		{route: "GET /api/sources", dialect: d2, from: "sources", view: "id name created_by"},
		{route: "GET /api/leads", dialect: d2, from: "leads", where: "pipeline_id=1", order: "order", view: "*",
			board: &board{of: "lead_stages", where: "pipeline_id=1", view: "id name order", as: "leads", by: "stage_id"},
			wrap: func(_ *world, _ params, rows any) any {
				return obj("pipeline", obj("id", 1, "name", "Sales"), "lead_stages", rows)
			}},
		{route: "POST /api/lead/leadboard", dialect: d1, message: "Leads retrieved successfully", required: "pipeline_id", from: "leads", order: "order", view: cards,
			board: &board{of: "lead_stages", where: "pipeline_id=$pipeline_id", view: "id name order", as: "leads", by: "stage_id"}},
		{route: "POST /api/lead/lead-details", dialect: d1, message: "Lead retrieved successfully", required: "pipeline_id lead_id", from: "leads", idParam: "lead_id",
			where: "pipeline_id=$pipeline_id", view: "id name order email subject phone follow_up_date user_id source_id=sources|strings product_id=products|strings pipeline_id stage_id " +
				"pipeline_name:pipelines@pipeline_id.name stage_name:lead_stages@stage_id.name created_at|day percentage=id|percent " +
				"tasks_list:lead_tasks<lead_id{id name date time priority status} lead_activity:lead_activity<lead_id{id remark time}"},
		{route: "GET /api/lead/show/{id}", dialect: d2, from: "leads", idParam: "id", where: "is_active=true",
			view: "* " + "products:items*products{id name} sources:sources*sources{id name} tasks:lead_tasks<lead_id{id name date time|minutes priority status} " +
				"calls:lead_calls<lead_id{id subject call_type duration lead_call_user:users@user_id.name} emails:lead_emails<lead_id{id subject to diff_time=created_at|ago} " +
				"discussion:lead_discussions<lead_id{comment user:users@user_id.name} files:lead_files<lead_id{id file_path|url} users:users<never{id}",
			wrap: func(_ *world, _ params, lead any) any { return obj("lead", lead, "precentage", "33%") }},
		{route: "GET /api/deals", dialect: d2, from: "deals", view: "id name order price|dollar pipeline_id stage_id sources|count products|count tasks=id|dtasks status " + labels,
			board: &board{of: "deal_stages", where: "pipeline_id=1", view: "id name order", as: "deals", by: "stage_id"},
			wrap: func(_ *world, _ params, rows any) any {
				return obj("pipeline", obj("id", 1, "name", "Sales", "stages", rows))
			}},
		{route: "GET /api/deal/show/{id}", dialect: d2m, wrap: named("deal"), from: "deals", idParam: "id",
			view: "* calls:deal_calls<deal_id{subject call_type duration} emails:deal_emails<deal_id{subject to} tasks:deal_tasks<deal_id{id name date time status}"},
		{route: "GET /api/lead/get-users", dialect: d1, message: "Users retrieved", from: "users", where: "type=staff", view: user},
		{route: "GET /api/lead/get-request-data", dialect: d1, message: "Data retrieved", lists: []namedList{
			{"users", "users", "type=staff", "id name"}, {"products", "items", "", "id name"}, {"sources", "sources", "", "id name"}, {"pipelines", "pipelines", "", "id name"}}},
		{route: "POST /api/lead/home", dialect: d1, message: "Dashboard retrieved", object: crmHome},
	}
}

func salesEndpoints() []*endpoint {
	const quote = "id name|dash date_quoted|nice user:users@user_id.name quote_number status|quotelabel account:sales_accounts@account_id.name " +
		"opportunity:opportunities@opportunity_id.name billing_address billing_city billing_state billing_country billing_postalcode " +
		"shipping_address shipping_city shipping_state shipping_country shipping_postalcode billing_contact:sales_contacts@billing_contact_id.name " +
		"shipping_contact:sales_contacts@shipping_contact_id.name shipping_provider:shipping_providers@shipping_provider_id.name description " +
		"amount|dollar user_id account_id opportunity_id billing_contact_id shipping_contact_id shipping_provider_id"
	const quotes = quote + " quote_id=id|quotenumber tax:taxes*tax_ids{id name=tax_name}"
	const orders = quote + " quote_id order_number quote:quotes@quote_id.quote_number tax:taxes@tax_ids{id name=tax_name rate} date_quoted"
	return []*endpoint{
		{route: "GET /api/sales/quotes", dialect: d3, from: "quotes", order: "-id", view: quotes, pager: laravelPager, size: 10, fixed: true},
		{route: "GET /api/sales/quotes/{id}", dialect: d3, from: "quotes", idParam: "id", view: quotes, wrap: named("quote")},
		{route: "GET /api/sales/sales-orders", dialect: d3, from: "sales_orders", order: "-id", view: orders, pager: laravelPager, size: 10, fixed: true},
		{route: "GET /api/sales/sales-orders/{id}", dialect: d3, from: "sales_orders", idParam: "id", view: orders},
		{route: "GET /api/sales/opportunities", dialect: d3, from: "opportunities", order: "-id", pager: laravelPager, size: 10, fixed: true, keyed: 2,
			view: "id name account:sales_accounts@account_id.name stage:opportunity_stages@opportunity_stage_id.name amount|dollar probability close_date|nice " +
				"contacts:sales_contacts@contact_id{*} lead_source:sales_lead_sources@lead_source_id{*} description assign_user:users@assign_user_Id.name " +
				"account_id contact_id opportunity_stage_id assign_user_Id"},
		{route: "GET /api/sales/meetings", dialect: d3, from: "meetings", order: "-id", pager: laravelPager, size: 10, fixed: true,
			view: "id name parent description status account:sales_accounts@account_id.name start_date end_date attendees_user attendees_contact attendees_lead " +
				"assigned_user:users@assigned_user_id.name account_id assigned_user_id attendeescontact_id"},
		{route: "POST /api/sales/parent-records", dialect: d3, message: "", required: "parent", object: parentRecords},
		{route: "GET /api/sales/warehouses", dialect: d3, from: "warehouses", view: "id name"},
		{route: "POST /api/sales/get-warehouse-products", dialect: d3, required: "warehouse_id", from: "stock", where: "warehouse_id=$warehouse_id",
			view: "product_id name:items@product_id.name sku:items@product_id.sku sale_price:items@product_id.sale_price tax_ids:items@product_id.tax_ids quantity"},
		{route: "GET /api/sales/RequestData", dialect: d3, lists: []namedList{
			{"accounts", "sales_accounts", "", "id name"}, {"contacts", "sales_contacts", "", "id name"}, {"lead_sources", "sales_lead_sources", "", "id name"},
			{"users", "users", "type=staff", "id name"}, {"opportunities_stages", "opportunity_stages", "", "id name"}, {"opportunities", "opportunities", "", "id name"},
			{"shipping_provider", "shipping_providers", "", "id name"}, {"quotes", "quotes", "", "id name=quote_number"}, {"tax", "taxes", "", "id name=tax_name"}}},
		{route: "GET /api/sales/home", dialect: d3, object: salesHome},
	}
}
