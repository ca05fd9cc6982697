package browse

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/schemas"
)

// MaxStatement limits the size of a statement, in bytes.
const MaxStatement = 64 << 10

// Query runs one read-only statement and returns its result, up to the limits. It reads the proofs before the rows. So
// the rows are at least as fresh as the proofs say.
func (b *Browser) Query(ctx context.Context, d *open.Reader, sql string, limits Limits) (out Result, err error) {
	if err := statement(d, sql); err != nil {
		return out, err
	}
	if out.Tables, err = b.proofsFor(ctx, d, sql); err != nil {
		return out, err
	}
	if len(out.Tables) == 0 {
		out.Tables, out.Note = []Proof{}, "the statement names no loaded table, so it is not known how fresh the result is"
	}
	r := collector{limits: limits}
	if err = r.ask(ctx, d, sql); err != nil {
		return out, err
	}
	out.Columns, out.Rows, out.Cut, out.Complete = r.Columns, r.Rows, r.Cut, r.Cut == ""
	return out, nil
}

// CheckLength returns an error if a statement is too long. // Invariant 6
func CheckLength(sql string) error {
	if len(sql) > MaxStatement {
		return failure.Hinted(fmt.Errorf("the statement has %d bytes; at most %d are allowed", len(sql), MaxStatement), "write a shorter statement")
	}
	return nil
}

// statement returns an error if a statement is too long, or if the destination was opened for one of several sources.
func statement(d *open.Reader, sql string) error {
	if err := CheckLength(sql); err != nil {
		return err
	}
	// Cause: several sources share the tables of the destination
	return d.Together(fmt.Sprintf("put WHERE %s = '%s' into the query", schemas.ColSource, d.Source))
}

// proofsFor returns the proofs of the tables that a statement names.
func (b *Browser) proofsFor(ctx context.Context, d *open.Reader, sql string) (all []Proof, err error) {
	tables, err := knowledge.Tables(ctx, d)
	if err != nil {
		return nil, err
	}
	found, err := named(sql, tables)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	proofs, err := b.Proofs(ctx, d)
	for _, t := range found {
		all = append(all, proofs.Of(t))
	}
	return all, err
}
