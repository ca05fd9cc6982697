package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
)

// denied has the numbers of the server's errors for missing rights.
var denied = map[uint16]bool{1044: true, 1142: true, 1227: true, 1370: true}

// Problems lists rights that the user lacks, with the statements that grant them.
type Problems []string

// Error returns all problems.
func (p Problems) Error() string { return strings.Join(p, "; ") }

// Check returns [Problems] if the user lacks rights that a run needs. It tests the rights with its own tables, and
// drops these tables. If the database does not exist, Check creates it, as the first commit would.
func (d *DB) Check(ctx context.Context) error {
	s, err := d.b.Write(ctx)
	if denied[number(err)] {
		err = Problems{fmt.Sprintf("the user has no right to use or create the database: GRANT ALL ON %s.* TO %s", quote(d.b.database), d.b.config.User)}
	}
	if err != nil {
		return fmt.Errorf("check mysql: %w", err)
	}
	defer s.End()
	err = d.b.check(ctx, s.(*session))
	if err := errors.Join(err, s.Rollback()); err != nil {
		return fmt.Errorf("check mysql: %w", err)
	}
	return nil
}

func (b *backend) check(ctx context.Context, s *session) error {
	const name = load.Prefix + "check"
	table, view := b.Place(name), b.Place(name+"_view")
	var lacking Problems
	for _, try := range []struct {
		right, statement string
		run              func(context.Context, string) error
	}{
		{"CREATE", "CREATE TABLE IF NOT EXISTS " + table + " (a BIGINT, b BIGINT INVISIBLE) ENGINE = InnoDB", s.ddl},
		{"ALTER", "ALTER TABLE " + table + " MODIFY COLUMN a DECIMAL(38,0)", s.ddl},
		{"INDEX", "CREATE INDEX " + findIndex + " ON " + table + " (a)", s.ddl},
		{"CREATE VIEW", "CREATE OR REPLACE VIEW " + view + " AS SELECT a FROM " + table, s.ddl},
		{"CREATE TEMPORARY TABLES", "CREATE TEMPORARY TABLE " + name + "_temp (a BIGINT)", s.Exec},
		{"SELECT", "SELECT a FROM " + table, s.Exec},
		{"INSERT", "INSERT INTO " + table + " (a) VALUES (1)", s.Exec},
		{"UPDATE", "UPDATE " + table + " SET a = 2", s.Exec},
		{"DELETE", "DELETE FROM " + table, s.Exec},
		{"", "ROLLBACK", s.Exec},
		{"DROP", "DROP VIEW IF EXISTS " + view, s.ddl},
		{"DROP", "DROP TABLE IF EXISTS " + table, s.ddl},
	} {
		problem := fmt.Sprintf("the user lacks the right %s: GRANT %[1]s ON %s.* TO %s", try.right, quote(b.database), b.config.User)
		err := try.run(ctx, try.statement)
		switch n := number(err); {
		case denied[n] && !slices.Contains(lacking, problem):
			lacking = append(lacking, problem)
		case err != nil && !denied[n] && n != errNoTable && n != errKeyExists:
			return err
		}
	}
	if lacking != nil {
		return lacking
	}
	return nil
}
