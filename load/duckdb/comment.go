//go:build cgo && duckdb_arrow

package duckdb

import (
	"database/sql/driver"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// comment writes the descriptions of a table and its columns as comments in the database. A copy of a table has no
// comments, so all of them are written again. A widened column has lost its comment, so that comment is written again.
// Comments that users have written are not replaced.
func (f *fitting) comment(p load.Plan, copied bool) error {
	about, columns := p.Description, slices.Concat(p.Add, p.Describe)
	for _, w := range p.Widen {
		columns = append(columns, w.Column)
	}
	if copied {
		about, columns = load.TableDescription(p.Table.Columns), p.Table.Columns.Fields()
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c arrow.Field) bool { return schemas.DescriptionOf(c) == "" })
	if about == "" && len(columns) == 0 {
		return nil
	}
	theirs, err := f.comments(p)
	if err != nil {
		return err
	}
	table, of := place(p.Table.Name), "records of "+f.key.Stream
	if about != "" && load.OwnComment(theirs[""], of) {
		if err := f.s.exec(f.ctx, "COMMENT ON TABLE "+table+" IS "+literal(load.Comment(about, of))); err != nil {
			return err
		}
	}
	for _, c := range columns {
		from := schemas.Source(c)
		if !load.OwnComment(theirs[c.Name], from) {
			continue
		}
		q := "COMMENT ON COLUMN " + table + "." + ident(c.Name) + " IS " + literal(load.Comment(schemas.DescriptionOf(c), from))
		if err := f.s.exec(f.ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// comments returns a table's comments by column. The key "" holds the comment on the table itself.
func (f *fitting) comments(p load.Plan) (map[string]string, error) {
	all := map[string]string{}
	if p.Create {
		return all, nil
	}
	where := " WHERE database_name = 'db' AND schema_name = 'main' AND comment IS NOT NULL AND table_name = " + literal(p.Table.Name)
	query := "SELECT column_name, comment FROM duckdb_columns()" + where + " UNION ALL SELECT '', comment FROM duckdb_tables()" + where
	err := f.s.query(f.ctx, query, func(v []driver.Value) error {
		column, _ := v[0].(string)
		all[column], _ = v[1].(string)
		return nil
	})
	return all, err
}
