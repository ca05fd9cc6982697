package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// object is a table, a view or anything else with a name in the schema.
type object struct {
	sqlmerge.Object
	kind    string            // as in pg_class.relkind: r for a table, v for a view
	numbers map[string]string // names of the columns by their attribute numbers
	suspect bool              // another role may own the object or have attached something to it
}

// relations returns an SQL condition on the relation c of pg_class. The condition is true if c belongs to the schema
// and has one of the given names. It is also true for child tables: if the name leads is given, it is true for every
// name that begins with leads__.
//
// A database may have thousands of schemas, so the server must find the relations through the index on name and schema.
// That index sorts names by their bytes, and the byte after _ is `. So all names that begin with leads__ are between
// leads__ and leads_`.
func relations(schema string, names []string) string {
	or := make([]string, 0, 2*len(names))
	for _, n := range names {
		if len(n) <= schemas.MaxName { // Postgres would cut a longer name, which would then mean another table
			or = append(or, "c.relname = "+literal(n))
		}
		if child := n + "__"; len(child) <= schemas.MaxName {
			or = append(or, "c.relname >= "+literal(child)+" AND c.relname < "+literal(n+"_`"))
		}
	}
	if or == nil {
		return "false"
	}
	return inSchema("c.relnamespace", schema) + " AND (" + strings.Join(or, " OR ") + ")"
}

// readObjects reads the objects with the given names, and their child tables.
func readObjects(ctx context.Context, s *session, schema string, names []string) (map[string]*object, error) {
	all, keys := map[string]*object{}, map[*object]string{}
	query := `SELECT c.relname, c.relkind, ` + suspect + `, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
		a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a', k.keys, a.attnum,
		c.relrowsecurity AND pg_catalog.row_security_active(c.oid) OR NOT pg_catalog.has_table_privilege(c.oid, 'SELECT')
		FROM pg_catalog.pg_class c CROSS JOIN LATERAL (` + keysSQL + `) k
		LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE ` + relations(schema, names) + " ORDER BY c.relname, a.attnum"
	err := s.query(ctx, query, func(v [][]byte) error {
		o := all[string(v[0])]
		if o == nil {
			o = &object{kind: string(v[1]), suspect: string(v[2]) == "t", numbers: map[string]string{}}
			o.Types, o.View, o.Other, o.Hidden = map[string]string{}, o.kind == "v", kindName(o.kind), string(v[9]) == "t"
			all[string(v[0])], keys[o] = o, string(v[7])
		}
		if v[3] == nil {
			return nil
		}
		column := string(v[3])
		o.Columns = append(o.Columns, column)
		o.Types[column] = string(v[4])
		if string(v[5]) == "t" {
			o.Required = append(o.Required, column)
		}
		if string(v[6]) == "t" {
			o.Computed = append(o.Computed, column)
		}
		o.numbers[string(v[8])] = column
		return nil
	})
	for o, text := range keys {
		if err == nil {
			err = o.addKeys(text)
		}
	}
	return all, err
}

// keysSQL is a query that returns all unique keys of the relation c as one text, such as "1 1;2 1 3". Semicolons
// separate the keys. For each key, the first number says how many columns the key has. The attribute numbers of the
// index's columns follow, first those of the key.
const keysSQL = `SELECT pg_catalog.string_agg(i.indnkeyatts::text || ' ' || i.indkey::text, ';' ORDER BY i.indexrelid) AS keys FROM pg_catalog.pg_index i
	WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL`

// addKeys adds the unique keys in a text of keysSQL.
func (o *object) addKeys(text string) error {
	for key := range strings.SplitSeq(text, ";") {
		numbers := strings.Fields(key)
		if len(numbers) == 0 {
			continue
		}
		n, err := strconv.Atoi(numbers[0])
		if err != nil {
			return err
		}
		columns := numbers[1 : n+1] // the index may contain more columns, which are not part of the key
		for i, number := range columns {
			columns[i] = o.numbers[number]
		}
		o.Unique = append(o.Unique, load.KeyName(columns))
	}
	return nil
}

func objectsOf(found map[string]*object) map[string]*sqlmerge.Object {
	out := make(map[string]*sqlmerge.Object, len(found))
	for name, o := range found {
		out[name] = &o.Object
	}
	return out
}

// kindName describes an object that is neither a table nor a view. For a table or a view, it returns "".
func kindName(kind string) string {
	switch kind {
	case "r", "v":
		return ""
	case "m":
		return "a materialised view"
	case "p":
		return "a partitioned table"
	case "f":
		return "a foreign table"
	}
	return "an object that is not a table"
}
