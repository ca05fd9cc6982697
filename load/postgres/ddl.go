package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/pgerror"
)

// maxColumns is Postgres's limit of columns per table. It includes dropped columns.
const maxColumns = 1600

// Alter implements [sqlmerge.Session].
func (t *transaction) Alter(ctx context.Context, a sqlmerge.Alteration) error {
	if err := t.b.Step("alter"); err != nil {
		return err
	}
	p := a.Plan
	delete(t.types, p.Table.Name)
	if n := p.Table.Columns.NumFields(); n > maxColumns {
		return fmt.Errorf("it needs %d columns, and Postgres allows %d in a table; lower max_columns of the stream, or leave out columns with select or drop", n, maxColumns)
	}
	change := t.alter
	if p.Create {
		change = t.create
	}
	if err := change(ctx, p); err != nil {
		return err
	}
	return t.comment(ctx, a)
}

func (t *transaction) create(ctx context.Context, p load.Plan) error {
	table := p.Table
	defs := make([]string, 0, table.Columns.NumFields()+1)
	for _, f := range table.Columns.Fields() {
		def := t.b.definition(table, f)
		if sqlmerge.LateKey(table) && slices.Contains(table.Key, f.Name) {
			def += " NOT NULL" // so that the server need not look for nulls when the key is added
		}
		defs = append(defs, def)
	}
	if sqlmerge.OneRowPerKey(table) && !sqlmerge.LateKey(table) {
		defs = append(defs, "PRIMARY KEY ("+idents(load.FullKey(table))+")")
	}
	if err := t.run(ctx, "CREATE TABLE "+t.b.Place(table.Name)+" ("+strings.Join(defs, ", ")+")"); err != nil {
		return err
	}
	return t.index(ctx, table)
}

// keyPatience is how long AddKey waits for readers of the table.
const keyPatience = time.Second

// AddKey implements [sqlmerge.Keyed]. Readers can use the table while the server builds the index. Only the last step,
// which takes no time, waits until no transaction reads the table.
func (t *transaction) AddKey(ctx context.Context, table schemas.Table) error {
	place, name := t.b.Place(table.Name), ident(keyName(table.Name))
	_, err := t.undo(ctx, pgerror.LockTimeout, func() error {
		return t.run(ctx, fmt.Sprintf("CREATE UNIQUE INDEX %s ON %s (%s); SET LOCAL lock_timeout = %s; ALTER TABLE %s ADD PRIMARY KEY USING INDEX %s; SET LOCAL lock_timeout = %s",
			name, place, idents(load.FullKey(table)), millis(keyPatience), place, name, millis(t.b.o.LockTimeout)))
	})
	key := strings.Join(table.Key, ", ")
	var why string
	switch pgerror.Code(err) {
	case codeUnique:
		why = "several rows have the same (" + key + ")"
	case codeDefinition, codeNameTaken:
		why = "it has a primary key other than (" + key + "), or something else has the name " + keyName(table.Name)
	default:
		return err
	}
	return &load.ForeignChange{Table: table.Name, Diff: []string{why}}
}

// keyName returns the name of the index of a table's primary key: as Postgres would name it, but without cutting a long
// name, because the names of two tables can begin in the same way.
func keyName(table string) string {
	if name := table + "_pkey"; len(name) <= schemas.MaxName {
		return name
	}
	return fmt.Sprintf("penstock_%x_pkey", xxh3.HashString(table))
}

// index creates the indexes by which a merge finds rows. The primary key is not among them.
func (t *transaction) index(ctx context.Context, table schemas.Table) error {
	child := load.Child(table.Columns)
	if load.IsInternal(table.Name) || keyLinks(table) || sqlmerge.OneRowPerKey(table) && !child {
		return nil
	}
	create := "CREATE INDEX ON " + t.b.Place(table.Name) + " (" + idents(sqlmerge.FindColumns(table)) + ")"
	if table.Mode == schemas.History && len(table.Key) > 0 && !child {
		create += "; CREATE UNIQUE INDEX ON " + t.b.Place(table.Name) + " (" + idents(load.FullKey(table)) + ") WHERE " + ident(schemas.ColValidTo) + " IS NULL"
	}
	return t.run(ctx, create)
}

// keyLinks reports whether t is a child table whose primary key begins with the column that links its rows to their
// record. The index of such a key can find the rows of a record.
func keyLinks(t schemas.Table) bool {
	return load.Child(t.Columns) && sqlmerge.OneRowPerKey(t) && t.Key[0] == load.RootKeyColumn(t.Columns)
}

// alter adds and widens columns. If views depend on a widened column, it drops them first and creates them again at the
// end.
func (t *transaction) alter(ctx context.Context, p load.Plan) error {
	table := t.b.Place(p.Table.Name)
	var actions []string
	for _, f := range p.Add {
		actions = append(actions, "ADD COLUMN "+t.b.definition(p.Table, f))
	}
	var widened []string
	for _, w := range p.Widen {
		to := schemas.TypeOf(w.Column)
		widened = append(widened, w.Column.Name)
		actions = append(actions, "ALTER COLUMN "+ident(w.Column.Name)+" TYPE "+t.b.Type(to)+" USING "+t.b.Cast(ident(w.Column.Name), w.From, to))
	}
	if actions != nil {
		err := withoutViews(ctx, t.session, table, widened, func() error {
			return t.run(ctx, "ALTER TABLE "+table+" "+strings.Join(actions, ", "))
		})
		if err != nil {
			return err
		}
	}
	if p.ChangesMode() {
		return t.turn(ctx, p)
	}
	return nil
}

// turn() changes the key and the indexes of a table for its new mode.
func (t *transaction) turn(ctx context.Context, p load.Plan) error {
	was := p.Table
	was.Mode = p.OldMode
	if sqlmerge.OneRowPerKey(was) && !sqlmerge.OneRowPerKey(p.Table) {
		if err := t.dropKey(ctx, p.Table); err != nil {
			return err
		}
	}
	if load.Child(p.Table.Columns) && !keyLinks(was) || len(p.Table.Key) == 0 || sqlmerge.OneRowPerKey(p.Table) {
		return nil
	}
	return t.index(ctx, p.Table)
}

// dropKey drops the primary key constraint.
func (t *transaction) dropKey(ctx context.Context, table schemas.Table) error {
	place := t.b.Place(table.Name)
	names, err := t.strings(ctx, "SELECT conname FROM pg_catalog.pg_constraint WHERE contype = 'p' AND conrelid = "+literal(place)+"::regclass")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.run(ctx, "ALTER TABLE "+place+" DROP CONSTRAINT "+ident(name)); err != nil {
			return fmt.Errorf("drop the primary key, because mode %s keeps several rows per key: %w", table.Mode, err)
		}
	}
	return nil
}

// comment() sets the comments on a new table, on new columns, and on columns with a new description. A comment says
// where the content of the table or column comes from. Comments that users have written stay unchanged.
func (t *transaction) comment(ctx context.Context, a sqlmerge.Alteration) error {
	p, table := a.Plan, t.b.Place(a.Table.Name)
	theirs, err := t.comments(ctx, p)
	if err != nil {
		return err
	}
	var all []string
	if of := recordsOf(a); (p.Create || p.Description != "") && load.OwnComment(theirs[""], of) {
		all = append(all, "COMMENT ON TABLE "+table+" IS "+literal(load.Comment(load.TableDescription(p.Table.Columns), of)))
	}
	for _, f := range slices.Concat(p.Add, p.Describe) {
		from := schemas.Source(f)
		if from == "" {
			from = schemas.Meaning(f.Name)
		}
		if text := load.Comment(schemas.DescriptionOf(f), from); text != "" && load.OwnComment(theirs[f.Name], from) {
			all = append(all, "COMMENT ON COLUMN "+table+"."+ident(f.Name)+" IS "+literal(text))
		}
	}
	return t.run(ctx, strings.Join(all, "; "))
}

// recordsOf describes the rows of a table, for the table's comment: "records of crm.leads". For a child table, it is
// "/emails of the records of crm.leads".
func recordsOf(a sqlmerge.Alteration) string {
	of := "records of " + a.Stream
	if load.IsInternal(a.Table.Name) {
		return ownComment(a.Table)
	} else if at := load.SourcePointer(a.Table.Columns); at != "" {
		return at + " of the " + of
	} else if load.Child(a.Table.Columns) {
		return "part of the " + of
	}
	return of
}

// comments returns the comments of a table by column, if the plan changes descriptions. The comment on the table
// itself has the key "".
func (t *transaction) comments(ctx context.Context, p load.Plan) (map[string]string, error) {
	if p.Create || len(p.Describe) == 0 && p.Description == "" {
		return nil, nil
	}
	all := map[string]string{}
	query := `SELECT coalesce(a.attname, ''), d.description FROM pg_catalog.pg_description d
		LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND a.attnum > 0
		WHERE d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objoid = ` + literal(t.b.Place(p.Table.Name)) + "::pg_catalog.regclass"
	err := t.query(ctx, query, func(v [][]byte) error {
		all[string(v[0])] = string(v[1])
		return nil
	})
	return all, err
}
