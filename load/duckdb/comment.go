//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// comment writes the descriptions of a table and its columns as comments in the database. A copy of a table has no
// comments, so all of them are written again. A widened column has lost its comment, so that comment is written again.
// Comments that users have written are not replaced.
func (t *transaction) comment(ctx context.Context, a sqlmerge.Alteration, copied bool) error {
	about, columns := a.Description, slices.Concat(a.Add, a.Describe)
	for _, w := range a.Widen {
		columns = append(columns, w.Column)
	}
	if copied {
		about, columns = load.TableDescription(a.Table.Columns), a.Table.Columns.Fields()
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c arrow.Field) bool { return schemas.DescriptionOf(c) == "" })
	if about == "" && len(columns) == 0 {
		return nil
	}
	theirs, err := t.comments(ctx, a.Plan)
	if err != nil {
		return err
	}
	table, of := dialect{}.Place(a.Table.Name), "records of "+a.Stream
	if about != "" && load.OwnComment(theirs[""], of) {
		if err := t.Exec(ctx, "COMMENT ON TABLE "+table+" IS "+literal(load.Comment(about, of))); err != nil {
			return err
		}
	}
	for _, c := range columns {
		from := schemas.Source(c)
		if !load.OwnComment(theirs[c.Name], from) {
			continue
		}
		q := "COMMENT ON COLUMN " + table + "." + sqlmerge.Ident(c.Name) + " IS " + literal(load.Comment(schemas.DescriptionOf(c), from))
		if err := t.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// comments returns a table's comments by column. The key "" holds the comment on the table itself.
func (t *transaction) comments(ctx context.Context, p load.Plan) (map[string]string, error) {
	all := map[string]string{}
	if p.Create {
		return all, nil
	}
	where := " WHERE database_name = 'db' AND schema_name = 'main' AND comment IS NOT NULL AND table_name = " + literal(p.Table.Name)
	query := "SELECT column_name, comment FROM duckdb_columns()" + where + " UNION ALL SELECT '', comment FROM duckdb_tables()" + where
	err := t.Query(ctx, query, func(v []driver.Value) error {
		column, _ := v[0].(string)
		all[column], _ = v[1].(string)
		return nil
	})
	return all, err
}
