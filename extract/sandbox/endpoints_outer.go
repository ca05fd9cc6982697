package sandbox

func outerEndpoints() []*endpoint {
	const customer = "* user:users@user_id{id name email}"
	const invoice = "* -notes display_status=status|overdue customer:users@customer_id{id name email}"
	const items = " items:sales_invoices_items<invoice_id{id product_id quantity unit_price discount_amount tax_amount total_amount}"
	return []*endpoint{
		{route: "GET /api/v1/customers", dialect: d0, from: "customers", order: "id", view: customer, pager: linkPager, size: 12},
		{route: "GET /api/v1/customers/{id}", dialect: d0, from: "customers", idParam: "id", view: customer, wrap: named("data")},
		{route: "GET /api/v1/invoices", dialect: d0, from: "sales_invoices", order: "id", view: invoice, pager: resourcePager, size: 15},
		{route: "GET /api/v1/invoices/{id}", dialect: d0, from: "sales_invoices", idParam: "id", view: invoice + items, wrap: named("data")},

		{route: "GET /api/public/plans", dialect: d0, auth: public, object: publicPlans},
		{route: "GET /api/widget/{token}", dialect: d0, auth: public, media: "text/html; charset=UTF-8", object: widget},
		{route: "GET /api/badge/{token}", dialect: d0, auth: public, media: "image/svg+xml", object: badge},
		{route: "GET /api/wl/plans", dialect: d0, auth: whiteLabel, object: whiteLabelPlans},
		{route: "GET /api/wl/connect/status", dialect: d0, auth: whiteLabel, object: connectStatus},

		{route: "GET /api/socialpost", dialect: d1, message: "Settings", object: socialPost},
		{route: "GET /api/todoservice", dialect: d1, message: "Not connected", object: notConnected},
		{route: "GET /api/smsservice", dialect: d0, object: smsService},
		{route: "GET /api/agents/{agent}/outstanding-commissions", dialect: d0, object: commissions},
	}
}

func versionedEndpoints() []*endpoint {
	return []*endpoint{
		{route: "GET /v2/contacts", dialect: dV2, from: "contacts", order: "-created", view: "*", pager: stripePager, size: 10},
		{route: "GET /v2/contacts/{id}", dialect: dV2, from: "contacts", idParam: "id", view: "*"},
		{route: "GET /v2/invoices", dialect: dV2, from: "v2_invoices", order: "-created", view: "*", pager: nextPager, size: 10},
		{route: "GET /v2/invoices/{id}/pdf", dialect: dV2, media: "application/pdf", object: invoicePDF},
		{route: "GET /v2/tickets", dialect: dV2, from: "v2_tickets", order: "-created", view: "*", pager: numberedPager, size: 25},
	}
}
