//go:build iceberg && unix

package iceberg

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
)

// foreignSnapshot makes a snapshot with the same files as the current one, as another program might.
func foreignSnapshot(t testing.TB, o Options, name string, id int64, says table.Summary, drop ...int64) {
	t.Helper()
	tbl := metadata(t, o, name)
	b, err := table.MetadataBuilderFromBase(tbl.Metadata(), tbl.MetadataLocation())
	require.NoError(t, err)
	now := tbl.CurrentSnapshot()
	s := *now
	s.SnapshotID, s.ParentSnapshotID, s.SequenceNumber, s.Summary = id, &now.SnapshotID, now.SequenceNumber+1, &says
	s.TimestampMs = time.Now().UnixMilli()
	require.NoError(t, table.NewAddSnapshotUpdate(&s).Apply(b))
	require.NoError(t, table.NewSetSnapshotRefUpdate(table.MainBranch, id, table.BranchRef, 0, 0, 0).Apply(b))
	if drop != nil {
		require.NoError(t, table.NewRemoveSnapshotsUpdate(drop, false).Apply(b))
	}
	meta, err := b.Build()
	require.NoError(t, err)
	repoint(t, o, name, tbl.MetadataLocation(), meta)
}

// If another program's snapshots only replace files, the rows stay, even if some of these snapshots have expired.
// Snapshots that change rows stop the stream until Accept is called. Invariant 16
func TestForeignSnapshots(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	replace := table.Summary{Operation: table.OpReplace, Properties: iceberg.Properties{"added-records": "3", "deleted-records": "3"}}
	for i, name := range []string{"leads", parquet.HeadTable("crm.leads")} {
		foreignSnapshot(t, o, name, 11+int64(i), replace)
		foreignSnapshot(t, o, name, 21+int64(i), replace, 11+int64(i))
	}
	at = must(t, l, at, 2, 3)
	require.Len(t, read(t, o, "leads"), 3)
	for i, says := range []table.Summary{
		{Operation: table.OpAppend, Properties: iceberg.Properties{"added-records": "3"}},
		{Operation: table.OpReplace, Properties: iceberg.Properties{"added-records": "2", "deleted-records": "3"}},
	} {
		foreignSnapshot(t, o, "leads", 31+int64(i), says)
		_, err := put(t.Context(), l, at, 3+i, 3)
		require.ErrorIs(t, err, load.ErrForeignChange)
		require.ErrorContains(t, err, fmt.Sprintf("snapshot %d (%s)", 31+i, says.Operation))
		changes, err := l.Accept(t.Context(), "leads")
		require.NoError(t, err)
		require.Len(t, changes, 1)
		at = must(t, l, at, 3+i, 3)
		require.Len(t, read(t, o, "leads"), 3)
	}
}

// Hadoop writes the location file:///x as file:/x.
func TestLocations(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	from := located(t, o, "leads")[0]
	to := strings.Replace(from, "file:///", "file:/", 1)
	require.NoError(t, catalogOf(t, o).commit(t.Context(), []change{{table: "leads", from: from, to: to}}))
	must(t, open(t, o), at, 2, 3)
	require.Len(t, read(t, o, "leads"), 3)
	f := files{bareRoot("s3://lake/warehouse/")}
	for location, want := range map[string]bool{"s3a://lake/warehouse/x": true, "s3n://lake/warehouse/x": true, "s3://lake/warehouse/x": true, "s3://other/warehouse/x": false, "file:/x": false} {
		name, ok := f.Name(location)
		require.Equal(t, want, ok, location)
		require.Equal(t, want, name == "x", location)
	}
}

// bareRoot replaces the files of a lake in a test. It only converts file names to locations and back.
type bareRoot string

func (bareRoot) Write(context.Context, string, []byte) error  { return nil }
func (bareRoot) Read(context.Context, string) ([]byte, error) { return nil, nil }
func (f bareRoot) Location(name string) string                { return string(f) + name }
func (f bareRoot) Name(location string) (name string, ok bool) {
	return strings.CutPrefix(location, string(f))
}

// If another program has dropped a table that several sources share, penstock cannot restore it, because a commit has
// only the files of one source. The commit must fail, and must not create an empty table.
func TestSharedTableDropped(t *testing.T) {
	o := warehouse(t)
	at := map[string]state.Cursor{}
	for source, rows := range map[string]int{"berlin": 3, "boston": 5} {
		next, err := put(t.Context(), of(t, open(t, o), source), "", 1, rows)
		require.NoError(t, err)
		at[source] = next
	}
	require.NoError(t, catalogOf(t, o).commit(t.Context(), []change{{table: "leads", from: located(t, o, "leads")[0]}}))
	_, err := open(t, o).Accept(t.Context(), "leads")
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.ErrorContains(t, err, diffDropped)
	_, err = put(t.Context(), of(t, open(t, o), "boston"), at["boston"], 1, 5)
	require.ErrorIs(t, err, load.ErrForeignChange)
	require.Empty(t, located(t, o, "leads"))
}
