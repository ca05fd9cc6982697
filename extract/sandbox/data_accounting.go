package sandbox

import "fmt"

func (b *builder) accounting() {
	b.party("customers", "client", "CUST", 30)
	b.party("vendors", "vendor", "VEND", 21)
	b.fixed("account_categories", 4, func(_ *gen, i int) object {
		return obj("name", []string{"Assets", "Liabilities", "Income", "Expenses"}[i-1])
	})
	b.fixed("account_types", 8, func(g *gen, i int) object {
		return obj("category_id", 1+i%4, "name", g.pick("Current", "Fixed", "Operating", "Other")+" "+fmt.Sprint(i), "code", fmt.Sprintf("%02d", i),
			"normal_balance", g.pick("debit", "credit"), "description", nil, "is_active", 1, "is_system_type", g.flag())
	})
	b.fixed("accounts", 36, func(g *gen, i int) object {
		var parent any
		if i > 8 {
			parent = 1 + g.IntN(8)
		}
		return obj("account_code", fmt.Sprintf("%04d", i*25), "account_name", g.pick("Cash", "Receivables", "Sales", "Rent", "Löhne")+" "+fmt.Sprint(i),
			"account_type_id", 1+g.IntN(8), "parent_account_id", parent, "level", 1+g.IntN(3), "normal_balance", g.pick("debit", "credit"),
			"opening_balance", g.money(0, 9000), "current_balance", g.pick("", "-")+g.money(0, 9000), "is_active", true, "is_system_account", g.chance(4),
			"description", g.note())
	})
	b.fixed("bank_accounts", 5, func(g *gen, i int) object {
		return obj("account_number", fmt.Sprintf("%010d", g.IntN(1_000_000_000)), "account_name", g.company(), "bank_name", g.pick("Nordbank", "Banque É."),
			"branch_name", g.null(2, g.pick(cities...)), "account_type", fmt.Sprint(g.IntN(5)), "payment_gateway", g.null(2, "stripe"),
			"opening_balance", g.money(0, 90000), "current_balance", g.money(0, 90000), "iban", fmt.Sprintf("DE%020d", g.IntN(1_000_000_000)),
			"swift_code", "NORDDEFF", "routing_number", g.null(2, fmt.Sprintf("%09d", g.IntN(1_000_000))), "is_active", g.flag(), "gl_account_id", g.ref("accounts"))
	})
	b.grown("bank_transactions", 160, func(g *gen, i int) object {
		return obj("bank_account_id", 1+g.IntN(5), "transaction_date", g.day(360), "transaction_type", g.pick("debit", "credit"),
			"reference_number", g.null(4, fmt.Sprintf("%08d", i*17)), "description", g.note(), "amount", g.money(1, 9000), "running_balance", g.money(0, 99000),
			"transaction_status", g.pick("cleared", "pending"), "reconciliation_status", g.pick("unreconciled", "reconciled"))
	})
	b.grown("bank_transfers", 18, func(g *gen, i int) object {
		return obj("transfer_number", fmt.Sprintf("BT-%05d", i), "transfer_date", g.day(200), "from_account_id", 1+g.IntN(2), "to_account_id", 3+g.IntN(3),
			"transfer_amount", g.money(10, 9000), "transfer_charges", g.money(0, 9), "reference_number", g.null(2, "R/"+fmt.Sprint(i)), "description", g.note(),
			"status", g.pick("pending", "completed"), "journal_entry_id", g.null(2, g.IntN(900)))
	})
}

func (b *builder) party(name, kind, prefix string, n int) {
	b.grown(name, n, func(g *gen, i int) object {
		code := name[:len(name)-1] + "_code"
		same := g.chance(3)
		var shipping any = g.address()
		if same {
			shipping = nil
		}
		person := g.name()
		return obj("user_id", g.refWhere("users", "type", kind), code, fmt.Sprintf("%s-%04d", prefix, i), "company_name", g.company(),
			"contact_person_name", person, "contact_person_email", mailOf(person, i), "contact_person_mobile", g.null(3, g.phone()),
			"tax_number", g.null(2, fmt.Sprintf("%011d", g.IntN(1_000_000_000))), "payment_terms", g.null(3, "Net 14"),
			"billing_address", g.address(), "shipping_address", shipping, "same_as_billing", same, "notes", g.note(),
			"balance", g.money(0, 900), "credit_note_balance", "0.00")
	})
}

func (b *builder) payments() {
	for _, kind := range []string{"revenue", "expense"} {
		b.fixed(kind+"_categories", 6, func(g *gen, i int) object {
			return obj("category_name", g.pick("Travel", "Rent", "Fees", "Über")+" "+fmt.Sprint(i), "category_code", fmt.Sprintf("%03d", i),
				"description", nil, "is_active", g.chance(2), "gl_account_id", g.ref("accounts"))
		})
		b.grown(kind+"s", 37, func(g *gen, i int) object {
			return obj(kind+"_number", fmt.Sprintf("%.3s-%05d", kind, i), kind+"_date", g.day(200), "category_id", g.ref(kind+"_categories"),
				"bank_account_id", 1+g.IntN(5), "chart_of_account_id", g.null(3, g.ref("accounts")), "reference_number", g.null(2, fmt.Sprint(i*7)),
				"amount", g.money(1, 9000), "status", g.pick("draft", "approved", "posted"), "description", g.note(), "approved_by", g.null(2, 1+g.IntN(9)))
		})
	}
	b.settlements("customer", "client", "sales_invoices", 26)
	b.settlements("vendor", "vendor", "purchase_invoices", 22)
	b.note("credit", "customer", "client", "sales_invoices")
	b.note("debit", "vendor", "vendor", "purchase_invoices")
}

func (b *builder) settlements(party, kind, of string, n int) {
	b.grown(party+"_payments", n, func(g *gen, i int) object {
		return obj("payment_number", fmt.Sprintf("PAY-%05d", i), "payment_date", g.day(200), party+"_id", g.refWhere("users", "type", kind),
			"bank_account_id", 1+g.IntN(5), "reference_number", g.null(2, fmt.Sprintf("%06d", i)), "payment_amount", g.money(1, 9000),
			"status", g.pick("pending", "cleared", "cancelled"), "notes", g.note())
	})
	b.grown(party+"_allocations", n, func(g *gen, i int) object {
		return obj("payment_id", g.ref(party+"_payments"), "invoice_id", g.ref(of), "allocated_amount", g.money(1, 900))
	})
}

func (b *builder) note(word, party, kind, of string) {
	b.grown(word+"_notes", 14, func(g *gen, i int) object {
		return obj(word+"_note_number", fmt.Sprintf("%cN-%04d", word[0]-32, i), word+"_note_date", g.day(200), party+"_id", g.refWhere("users", "type", kind),
			"invoice_id", g.null(3, g.ref(of)), "return_id", g.null(2, 1+g.IntN(9)), "reason", g.sentence(),
			"status", g.pick("draft", "approved", "partial", "applied", "cancelled"), "subtotal", g.money(1, 900), "tax_amount", g.money(0, 90),
			"discount_amount", "0.00", "total_amount", g.money(1, 990), "applied_amount", g.money(0, 90), "balance_amount", g.money(0, 900),
			"approved_by", g.null(2, 1), party+"_snapshot", obj("name", g.name(), "vat", nil))
	})
}
