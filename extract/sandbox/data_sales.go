package sandbox

import (
	"fmt"
	"strconv"
)

func (b *builder) products() {
	b.fixed("categories", 6, func(g *gen, i int) object {
		return obj("name", []string{"Desks", "Chairs", "Lamps & Möbel", "Services", "Paper/Ink", "その他"}[i-1], "color", g.pick(colours...))
	})
	b.fixed("taxes", 4, func(_ *gen, i int) object {
		return obj("tax_name", []string{"VAT", "GST", "Reduced", "Eco"}[i-1], "rate", []string{"19.00", "18.00", "7.00", "0.50"}[i-1])
	})
	b.fixed("units", 4, func(_ *gen, i int) object { return obj("unit_name", []string{"piece", "hour", "kg", "m²"}[i-1]) })
	b.grown("items", 54, func(g *gen, i int) object {
		return obj("name", g.pick("Desk", "Chair", "Lamp", "Router", "Café set", "Support hour")+" "+g.suffix(3), "sku", g.null(5, fmt.Sprintf("%06d", i*37)),
			"tax_ids", g.taxes(), "category_id", g.ref("categories"), "description", g.note(), "long_description", g.null(2, "<p>"+g.sentence()+"</p>"),
			"sale_price", g.money(5, 900), "purchase_price", g.money(2, 500), "unit", strconv.Itoa(g.ref("units")),
			"image", g.null(3, fmt.Sprintf("products/%d.png", i)), "images", g.null(2, list{"a.png", "b c.png"}),
			"type", g.pick("product", "product", "service", "part"), "is_active", g.flag())
	})
	b.fixed("warehouses", 4, func(g *gen, i int) object {
		return obj("name", []string{"North", "South", "Überseelager", "Virtual"}[i-1], "address", g.pick(streets...), "city", g.pick(cities...),
			"zip_code", fmt.Sprintf("%05d", g.IntN(9999)), "phone", g.phone(), "email", g.null(2, mailOf(g.name(), i)), "is_active", i != 4)
	})
	b.grown("stock", 66, func(g *gen, i int) object {
		return obj("product_id", g.ref("items"), "warehouse_id", 1+g.IntN(3), "quantity", g.money(0, 80))
	})
	b.grown("stock_transfers", 17, func(g *gen, i int) object {
		return obj("from_warehouse", 1+g.IntN(3), "to_warehouse", 1+g.IntN(4), "product_id", g.ref("items"), "quantity", g.money(1, 20), "date", g.day(120))
	})
	b.grown("pos", 29, func(g *gen, i int) object {
		return obj("sale_number", fmt.Sprintf("#POS%05d", i), "customer_id", []any{nil, 0, g.refWhere("users", "type", "client")}[g.IntN(3)],
			"warehouse_id", 1+g.IntN(3), "pos_date", g.day(90), "status", g.pick("completed", "pending"), "bank_account_id", 1+g.IntN(5))
	})
	b.grown("pos_items", 70, func(g *gen, i int) object {
		return obj("pos_id", g.ref("pos"), "product_id", g.ref("items"), "quantity", strconv.Itoa(1+g.IntN(9))+".00", "price", g.money(5, 400),
			"subtotal", g.money(5, 900), "tax_ids", g.taxes(), "tax_amount", g.money(0, 90), "total_amount", g.money(9, 990))
	})
	b.grown("pos_payments", 25, func(g *gen, i int) object {
		return obj("pos_id", i, "discount", g.money(0, 9), "amount", g.money(9, 990), "discount_amount", g.money(9, 990))
	})
}

func (g *gen) taxes() any {
	ids := g.refs("taxes", 2)
	if len(ids) == 0 {
		return nil
	}
	l := list{}
	for _, id := range ids {
		l = append(l, strconv.Itoa(id))
	}
	return l
}

func (b *builder) sales() {
	for name, of := range map[string][]string{
		"sales_lead_sources": {"Cold call", "Campaign", "Partner"}, "opportunity_stages": {"Prospect", "Offer", "Closed Won"},
		"shipping_providers": {"DHL", "Correos"},
	} {
		b.fixed(name, len(of), func(_ *gen, i int) object { return obj("name", of[i-1]) })
	}
	b.grown("sales_accounts", 14, func(g *gen, i int) object {
		return obj("name", g.company(), "email", mailOf(g.name(), i), "website", g.null(2, "https://corp.example.test/?a=1&b=2"))
	})
	b.grown("sales_contacts", 16, func(g *gen, i int) object {
		name := g.name()
		return obj("name", name, "account", g.ref("sales_accounts"), "email", mailOf(name, i), "phone", g.phone())
	})
	b.grown("opportunities", 28, func(g *gen, i int) object {
		return obj("name", g.pick(objects...), "account_id", g.ref("sales_accounts"), "contact_id", g.ref("sales_contacts"),
			"opportunity_stage_id", g.ref("opportunity_stages"), "lead_source_id", g.ref("sales_lead_sources"), "amount", g.money(100, 90000),
			"probability", strconv.Itoa(g.IntN(101)), "close_date", g.after(today, 90), "assign_user_Id", g.refWhere("users", "type", "staff"),
			"description", g.note())
	})
	b.grown("quotes", 23, func(g *gen, i int) object { return g.quote(i, "quote_id", i) })
	b.grown("sales_orders", 12, func(g *gen, i int) object {
		return g.quote(i, "quote_id", g.ref("quotes")).put("order_number", fmt.Sprintf("#ORD%05d", i))
	})
	b.grown("meetings", 21, func(g *gen, i int) object {
		return obj("name", g.sentence(), "parent", g.pick("account", "contact", "opportunities"), "parent_id", 1+g.IntN(10), "description", g.note(),
			"status", g.pick("Planned", "Held", "Not Held"), "account_id", g.ref("sales_accounts"), "start_date", g.day(40), "end_date", g.after(today, 20),
			"attendees_user", g.pick("", g.name()), "attendees_contact", "", "attendees_lead", g.pick("", g.name()),
			"assigned_user_id", g.refWhere("users", "type", "staff"), "attendeescontact_id", g.ref("sales_contacts"))
	})
}

func (g *gen) quote(i int, pairs ...any) object {
	at, to := g.address(), g.address()
	o := obj("name", g.null(6, g.pick(objects...)), "quote_number", strconv.Itoa(1000+i), "user_id", g.refWhere("users", "type", "staff"),
		"amount", g.money(100, 20000), "date_quoted", g.day(150), "status", g.IntN(4), "account_id", g.ref("sales_accounts"),
		"opportunity_id", g.ref("opportunities"), "billing_contact_id", g.ref("sales_contacts"), "shipping_contact_id", g.ref("sales_contacts"),
		"shipping_provider_id", g.IntN(3), "tax_ids", comma(g.refs("taxes", 2)), "description", g.note())
	for _, part := range []string{"city", "state", "country"} {
		o = o.put("billing_"+part, at.get(part)).put("shipping_"+part, to.get(part))
	}
	o = append(o, obj("billing_address", at.get("address_line_1"), "billing_postalcode", at.get("zip_code"),
		"shipping_address", to.get("address_line_1"), "shipping_postalcode", to.get("zip_code"))...)
	return append(o, obj(pairs...)...)
}

type documentKind struct {
	table  string
	number string // prefix of the document number
	names  string
	party  string
	status []string
	rows   int
	more   func(g *gen, i int) object
}

func (b *builder) documents() {
	posted := []string{"draft", "posted", "partial", "paid"}
	returned := []string{"draft", "approved", "completed", "cancelled"}
	origin := func(of string) func(*gen, int) object {
		return func(g *gen, _ int) object {
			return obj("original_invoice_id", g.ref(of), "reason", g.pick("defective", "wrong_item", "damaged", "excess_quantity", "other"))
		}
	}
	for _, f := range []documentKind{
		{"sales_proposals", "SP", "proposal", "customer", []string{"draft", "sent", "accepted", "rejected"}, 24, func(g *gen, _ int) object {
			return obj("converted_to_invoice", g.chance(4), "invoice_id", g.null(2, 1+g.IntN(30)))
		}},
		{"sales_invoices", "SI", "invoice", "customer", posted, 46, func(g *gen, _ int) object { return obj("type", g.pick("product", "service")) }},
		{"sales_returns", "SR", "return", "customer", returned, 13, origin("sales_invoices")},
		{"purchase_invoices", "PI", "invoice", "vendor", posted, 33, func(g *gen, _ int) object { return obj("debit_note_applied", g.money(0, 50)) }},
		{"purchase_returns", "PR", "return", "vendor", returned, 11, origin("purchase_invoices")},
	} {
		b.grown(f.table, f.rows, f.row)
		b.grown(f.table+"_items", f.rows*2, f.item)
		b.grown(f.table+"_taxes", f.rows*2, func(g *gen, _ int) object {
			return obj("item_id", g.ref(f.table+"_items"), "tax_name", g.pick("VAT", "GST"), "tax_rate", g.pick("19.00", "18.00", "0.50"))
		})
	}
}

func (f documentKind) row(g *gen, i int) object {
	kind := f.party
	if kind == "customer" {
		kind = "client"
	}
	day := g.day(300)
	o := obj(f.names+"_number", fmt.Sprintf("%s-2026-%02d-%04d", f.number, 1+i%12, i), f.names+"_date", day, "due_date", g.after(day, 45),
		f.party+"_id", g.refWhere("users", "type", kind), "warehouse_id", g.null(3, 1+g.IntN(3)))
	o = append(o, g.amounts()...)
	o = append(o, obj("status", g.pick(f.status...), "payment_terms", g.null(3, g.pick("Net 30", "sofort")), "notes", g.note())...)
	return append(o, f.more(g, i)...)
}

func (g *gen) amounts() object {
	subtotal, tax, discount := 1000+g.IntN(899000), g.IntN(90000), g.IntN(1000)
	total := subtotal + tax - discount
	paid := []int{0, g.IntN(total), total}[g.IntN(3)]
	balance := cents(total - paid)
	if paid == total {
		balance = g.pick("0.00", "-0.00")
	}
	return obj("subtotal", cents(subtotal), "tax_amount", cents(tax), "discount_amount", cents(discount),
		"total_amount", cents(total), "paid_amount", cents(paid), "balance_amount", balance)
}

func cents(n int) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }

func (f documentKind) item(g *gen, _ int) object {
	return obj("invoice_id", g.ref(f.table), "product_id", g.ref("items"), "quantity", 1+g.IntN(20), "unit_price", g.money(1, 500),
		"discount_percentage", g.pick("0.00", "5.00", "12.50"), "discount_amount", g.money(0, 20), "tax_percentage", g.pick("19.00", "0.00"),
		"tax_amount", g.money(0, 90), "total_amount", g.money(1, 900))
}
