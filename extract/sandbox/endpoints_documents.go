package sandbox

func documentEndpoints() []*endpoint {
	const customer = "customer:users@customer_id?{id name email mobile_no}"
	const vendor = "vendor:users@vendor_id{id name email}"
	const warehouse = "warehouse:warehouses@warehouse_id{id name}"
	items := func(of string) string {
		return "items:" + of + "_items<invoice_id{id invoice_id product_id quantity unit_price discount_percentage discount_amount " +
			"tax_percentage tax_amount total_amount taxes:" + of + "_taxes<item_id{id item_id tax_name tax_rate}}"
	}
	invoice := "* display_status=status|overdue " + customer + " " + items("sales_invoices") + " " + warehouse
	proposal := "* converted_to_invoice|flag " + customer + " " + items("sales_proposals")
	salesReturn := "* " + customer + " " + items("sales_returns")
	purchase := "* display_status=status|overdue " + vendor + " " + items("purchase_invoices")
	purchaseReturn := "* " + vendor + " " + items("purchase_returns")
	return []*endpoint{
		{route: "GET /api/sales-invoice", dialect: d1, message: "Invoices retrieved", from: "sales_invoices", order: "-created_at", view: invoice, pager: itemsPager, size: 10},
		{route: "GET /api/sales-invoice/show/{invoice_id}", dialect: d1, message: "Invoice retrieved", from: "sales_invoices", idParam: "invoice_id", view: invoice},
		{route: "GET /api/sales-proposal", dialect: d2, from: "sales_proposals", view: proposal, wrap: named("proposals")},
		{route: "GET /api/sales-proposal/show/{proposal_id}", dialect: d2, from: "sales_proposals", idParam: "proposal_id", view: proposal + " " + warehouse, wrap: named("proposal")},
		{route: "GET /api/sales-invoice-return", dialect: d1, message: "Returns retrieved", from: "sales_returns", order: "-created_at", view: salesReturn, pager: simplePager, size: 5},
		{route: "GET /api/sales-invoice-return/show/{return_id}", dialect: d1, message: "Return retrieved", from: "sales_returns", idParam: "return_id", view: salesReturn},
		{route: "GET /api/purchase-invoice", dialect: d1, message: "Purchases retrieved", from: "purchase_invoices", order: "-id", view: purchase, pager: laravelPager, size: 15, keyed: 2},
		{route: "GET /api/purchase-invoice/show/{invoice_id}", dialect: d2, from: "purchase_invoices", idParam: "invoice_id", view: purchase + " -id", wrap: oldInvoice},
		{route: "GET /api/purchase-return", dialect: d2, from: "purchase_returns", order: "-id", view: purchaseReturn, pager: cursorPager, size: 4},
		{route: "GET /api/purchase-return/show/{return_id}", dialect: d2, from: "purchase_returns", idParam: "return_id", view: purchaseReturn, wrap: named("return")},
	}
}

func accountingEndpoints() []*endpoint {
	const account = "* account_type:account_types@account_type_id{*} parent_account:accounts@parent_account_id{* parent_account:accounts@parent_account_id{id account_code}}"
	payment := func(party, of, notes string) string {
		return "* " + party + ":users@" + party + "_id{id name} bank_account:bank_accounts@bank_account_id{id account_name} " +
			"allocations:" + party + "_allocations<payment_id{id invoice_id allocated_amount invoice:" + of + "@invoice_id{id invoice_number total_amount}} " + notes
	}
	return []*endpoint{
		{route: "GET /api/customers", dialect: d2, from: "customers", view: "*"},
		{route: "GET /api/vendors", dialect: d2, from: "vendors", order: "-created_at", view: "*", pager: resourcePager, size: 10},
		{route: "GET /api/get-clients", dialect: d2, from: "users", where: "type=client", view: "id name email"},
		{route: "GET /api/get-vendors", dialect: d2, from: "users", where: "type=vendor", view: "id name"},
		{route: "GET /api/bank-accounts", dialect: d1, message: "Bank accounts retrieved", from: "bank_accounts", view: "* gl_account:accounts@gl_account_id{id account_code account_name}"},
		{route: "GET /api/bank-transactions", dialect: d1, message: "Transactions retrieved", from: "bank_transactions", order: "-id",
			view: "* -creator_id -created_by", pager: cursorPager, size: 20},
		{route: "GET /api/bank-transfers", dialect: d1, message: "Transfers retrieved", from: "bank_transfers", order: "-id",
			view: "* from_account:bank_accounts@from_account_id.account_name to_account:bank_accounts@to_account_id.account_name", pager: simplePager, size: 10},
		{route: "GET /api/account-types", dialect: d1, message: "Account types retrieved", from: "account_types", view: "*"},
		{route: "GET /api/chart-of-accounts", dialect: d1, message: "Accounts retrieved", from: "accounts", view: account, pager: itemsPager, size: 10},
		{route: "GET /api/gl-accounts", dialect: d2, from: "accounts", view: account},
		{route: "GET /api/revenues", dialect: d0, from: "revenues", order: "-id", view: "* category:revenue_categories@category_id{id category_name}", pager: fractalPager, size: 12},
		{route: "GET /api/revenue-categories", dialect: d2, from: "revenue_categories", view: "*"},
		{route: "GET /api/expenses", dialect: d0, from: "expenses", order: "-id", view: "* category:expense_categories@category_id{id category_name}", pager: barePager, size: 15},
		{route: "GET /api/expense-categories", dialect: d2, from: "expense_categories", view: "* is_active|str"},
		{route: "GET /api/customer-payments", dialect: d1, message: "Payments retrieved", from: "customer_payments", order: "-id",
			view: payment("customer", "sales_invoices", "credit_note_applications:credit_notes<never{id}"), pager: numberedPager, size: 10},
		{route: "GET /api/vendor-payments", dialect: d0, from: "vendor_payments", order: "-id",
			view: payment("vendor", "purchase_invoices", "debit_note_applications:debit_notes<never{id}"), pager: offsetPager, size: 10},
		{route: "GET /api/credit-notes", dialect: d2, from: "credit_notes", order: "-id", view: "* customer:users@customer_id{id name}", pager: resourcePager, size: 5},
		{route: "GET /api/debit-notes", dialect: d1, message: "Debit notes retrieved", from: "debit_notes", order: "-id", view: "* vendor:users@vendor_id{id name}", pager: laravelPager, size: 6},
	}
}

func goodsEndpoints() []*endpoint {
	const product = "* category:categories@category_id{id name color} unit_relation:units@unit{id unit_name} taxes:taxes*tax_ids{id tax_name rate} " +
		"warehouse_stocks:stock<product_id{id warehouse_id quantity}"
	const old = "id name sku sale_price purchase_price quantity=id|stocked tax=tax_ids|taxnames categorys:categories@category_id{id name} " +
		"units:units@unit?{id name=unit_name} type image|url description is_active|strflag"
	const order = "* warehouse:warehouses@warehouse_id{id name} customer:users@customer_id?{id name email} items:pos_items<pos_id{id product_id quantity price subtotal tax_ids tax_amount total_amount}"
	return []*endpoint{
		{route: "GET /api/products", dialect: d2, from: "items", view: old},
		{route: "GET /api/product/detail/{id}", dialect: d1, message: "Product retrieved", from: "items", idParam: "id", view: product},
		{route: "GET /api/product-service/items", dialect: d1, message: "Items retrieved", from: "items", order: "-created_at", view: product, pager: itemsPager, size: 20},
		{route: "GET /api/product/category", dialect: d2, from: "categories", view: "id name color"},
		{route: "GET /api/tax", dialect: d2, from: "taxes", view: "id name=tax_name rate"},
		{route: "GET /api/units", dialect: d2, from: "units", view: "id name=unit_name created_by"},
		{route: "GET /api/product-stocks", dialect: d1, message: "Stocks retrieved", from: "items", where: "type=product",
			view: "id name sku warehouses:stock<product_id{warehouse_id name:warehouses@warehouse_id.name quantity}"},
		{route: "GET /api/warehouse", dialect: d1, message: "Warehouses retrieved", from: "warehouses", view: "*"},
		{route: "GET /api/warehouse/product/{warehouse_id}", dialect: d1, message: "Products retrieved", from: "stock", where: "warehouse_id=$warehouse_id",
			view: "warehouse_id product_id name:items@product_id.name sku:items@product_id.sku quantity"},
		{route: "GET /api/transfer", dialect: d1, message: "Transfers retrieved", from: "stock_transfers", order: "-id",
			view: "* from_warehouse:warehouses@from_warehouse{id name} to_warehouse product:items@product_id{id name}", pager: laravelPager, size: 8},
		{route: "GET /api/transfer/request-data", dialect: d1, message: "Data retrieved", lists: []namedList{
			{"warehouses", "warehouses", "", "id name"}, {"products", "items", "type=product", "id name"}}},
		{route: "GET /api/pos", dialect: d2, from: "pos", order: "-id", view: order + " payment:pos_payments@id?{discount amount discount_amount}"},
		{route: "GET /api/pos/show/{id}", dialect: d2, from: "pos", idParam: "id", view: order + " pos_payment:pos_payments@id?{discount amount discount_amount}"},
	}
}
