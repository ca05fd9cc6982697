//go:build iceberg

package iceberg

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
)

// formatVersion is the version of Iceberg's table format. All engines can read version 2.
const formatVersion = 2

type edition struct {
	t       parquet.TableFiles
	base    table.Metadata // nil: the table is new
	current int64          // ID of the snapshot that is current after the commit
	shared  bool           // several sources share the table
	b       *table.MetadataBuilder
	renewed bool // the table needs a new snapshot, even if no file is added or removed
	since        // what has happened to the table since penstock's last commit; since.last is nil if the table is new, or if its files are restored
	order   int  // ID of the table's sort order, if it is penstock's; otherwise 0
	updates []table.Update
	specs   []iceberg.PartitionSpec // all partition specs of the table
}

func (e *edition) do(u table.Update) error {
	e.updates = append(e.updates, u)
	return u.Apply(e.b)
}

// keepMetadata is how many earlier metadata files each metadata file lists. If another program has expired snapshots,
// penstock looks for them in these files: see [history].
const keepMetadata = "50"

// commentKey is the property that engines show as a table's comment.
const commentKey = "comment"

func about(t parquet.TableFiles, stream string) string {
	if load.IsInternal(t.Table) || load.Child(t.Columns) {
		return load.TableDescription(t.Columns)
	}
	return load.Comment(load.TableDescription(t.Columns), "records of "+stream)
}

func newEdition(c *catalog, t parquet.TableFiles, of parquet.Commit) (*edition, error) {
	b, err := table.NewMetadataBuilder(formatVersion)
	if err != nil {
		return nil, err
	}
	schema, err := schemaOf(t.Columns, t.Key, t.Versions)
	if err != nil {
		return nil, err
	}
	e := &edition{t: t, b: b, shared: of.Source != ""}
	props := iceberg.Properties{
		propStream:                                of.Stream,
		table.MetadataPreviousVersionsMaxKey:      keepMetadata,
		table.MetadataDeleteAfterCommitEnabledKey: "true", // a REST catalog writes the metadata files itself; with this setting, it also removes old ones
		"write.parquet.compression-codec":         "zstd",
	}
	if text := about(t, of.Properties["stream"]); text != "" {
		props[commentKey] = text
	}
	var all error
	for _, u := range []table.Update{
		table.NewAssignUUIDUpdate(uuid.New()),
		table.NewSetLocationUpdate(c.files.Location(t.Folder)),
		table.NewAddSchemaUpdate(schema),
		table.NewSetCurrentSchemaUpdate(-1),
		table.NewSetPropertiesUpdate(props),
	} {
		all = errors.Join(all, e.do(u))
	}
	if all != nil {
		return nil, all
	}
	if _, err := e.useSpec(t.PartitionBy); err != nil {
		return nil, err
	}
	if err := e.do(table.NewSetDefaultSpecUpdate(-1)); err != nil {
		return nil, err
	}
	return e, e.setOrder(&table.UnsortedSortOrder)
}

func nextEdition(t parquet.TableFiles, of parquet.Commit, at string, base table.Metadata, past since) (*edition, error) {
	b, err := table.MetadataBuilderFromBase(base, at)
	if err != nil {
		return nil, err
	}
	e := &edition{t: t, base: base, since: past, b: b, shared: of.Source != "", renewed: past.unfinished || t.Restore, specs: slices.Clone(base.PartitionSpecs())}
	if t.Restore && !e.shared {
		e.last = nil // the new snapshot has only the files in t.Added
	}
	if err := e.compare(); err != nil {
		return nil, err
	}
	if err := e.evolve(); err != nil {
		return nil, err
	}
	stream := of.Properties["stream"]
	now, text := base.Properties()[commentKey], about(t, stream)
	if now == text || text == "" || !load.OwnComment(now, "records of "+stream) {
		return e, nil
	}
	return e, e.do(table.NewSetPropertiesUpdate(iceberg.Properties{commentKey: text}))
}

func (e *edition) evolve() error {
	schema, err := schemaOf(e.t.Columns, e.t.Key, e.t.Versions)
	if err != nil {
		return err
	}
	schema = e.keepComments(schema)
	if e.shared {
		if schema, err = mergeColumns(e.t, e.base.CurrentSchema(), schema); err != nil {
			return err
		}
	}
	if !sameColumns(e.base.CurrentSchema(), schema) {
		if err := errors.Join(e.do(table.NewAddSchemaUpdate(schema)), e.do(table.NewSetCurrentSchemaUpdate(-1))); err != nil {
			return fmt.Errorf("change columns: %w", err)
		}
	}
	now := e.base.SortOrder()
	if err := e.setOrder(&now); err != nil {
		return err
	}
	spec, err := e.useSpec(e.t.PartitionBy)
	if err != nil || spec.ID() == e.base.DefaultPartitionSpec() {
		return err
	}
	if err := e.do(table.NewSetDefaultSpecUpdate(spec.ID())); err != nil {
		return fmt.Errorf("change partitions: %w", err)
	}
	return nil
}

// keepComments returns the schema `want` with the column comments that users have written. // Invariant 16
func (e *edition) keepComments(want *iceberg.Schema) *iceberg.Schema {
	fields := want.Fields()
	for i, f := range fields {
		now, ok := e.base.CurrentSchema().FindFieldByID(f.ID)
		from := schemas.Source(e.t.Columns.Field(i))
		if ok && !load.OwnComment(now.Doc, from) {
			fields[i].Doc = now.Doc
		}
	}
	return iceberg.NewSchemaWithIdentifiers(0, want.IdentifierFieldIDs, fields...)
}

func sameColumns(a, b *iceberg.Schema) bool {
	x, y := a.Fields(), b.Fields()
	ids := func(s *iceberg.Schema) []int { return slices.Sorted(slices.Values(s.IdentifierFieldIDs)) }
	if len(x) != len(y) || !slices.Equal(ids(a), ids(b)) {
		return false
	}
	for i := range x {
		if !x[i].Equals(y[i]) || x[i].Doc != y[i].Doc {
			return false
		}
	}
	return true
}
