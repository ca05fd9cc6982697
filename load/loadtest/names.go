package loadtest

import "strings"

// hostile are names that may cause trouble in SQL or in a file system. No two of them are equal in lower case, because
// a destination never gets two names that differ only in case. Invariant 17
var hostile = append(strings.Fields(`
	select from where group order by having limit offset union all distinct join left on using as and or not null true false
	table view index column user role grant primary key unique check default values insert update delete set into with case when
	end interval date time timestamp current_date analyze verbose lateral window array row end_ desc
	ctid xmin xmax cmin cmax tableoid rowid oid filename file_row_number main public pg_catalog information_schema db temp
	penstock_status k0 o n st h t s c carried again l x value excluded new old
	a.b a"b a'b a;-- %s %d $1 {x} ${x} @x #x !x ^x &x *x (x) x=y <x> ? : | ~ + - , \ / // ../.. . .. a/b a\b c: nul con aux
	1st 42 0 -1 1e5 é è e`+"\u0301"+` ß ss ı 🦊 👩‍👩‍👧 שלום مرحبا 名前 ﬁ `+"a\u202eb a\u200bb \u200b \ufeffbom"+`
`),
	" ", "  ", "a b", " a", "a ", "a\tb", "a\nb", "\t", "`", "]", "[x]", `x"; DROP TABLE t; --`, `\"`, `""`, "''", "--", "/* x */", "\u00a0", "\x01", "\x7f",
	strings.Repeat("x", 63), strings.Repeat("é", 31)+"y", strings.Repeat("名", 21), "penstock/", "_", "x_current")
