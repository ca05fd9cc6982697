package loadtest

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Comment returns the description of the table's column, or of the table if column is "".
func (m *Memory) Comment(name, column string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[name]
	if t == nil || column == "" {
		return commentOf(t)
	}
	i := t.Columns.FieldIndices(column)
	if i == nil {
		return ""
	}
	return load.Comment(schemas.DescriptionOf(t.Columns.Field(i[0])), schemas.Source(t.Columns.Field(i[0])))
}

func commentOf(t *table) string {
	if t == nil {
		return ""
	}
	return load.Comment(load.TableDescription(t.Columns), "records of "+orders.Stream)
}

func described(about, name string, columns ...arrow.Field) schemas.Table {
	t := root("people", []string{"id"}, append(columns, column("id", schemas.Int64), schemas.WithDescription(column("name", schemas.Text), name))...)
	if about != "" {
		md := arrow.MetadataFrom(map[string]string{schemas.DescriptionKey: about})
		t.Columns = arrow.NewSchema(t.Columns.Fields(), &md)
	}
	return t
}

// testDescriptions checks the comments on columns. When a field gets a description, the next commit of a row must write
// the comment. The change must be recorded once.
func testDescriptions(t *testing.T, d Driver) {
	b := newFixture(t, d)
	says := func(column, want string) {
		t.Helper()
		require.Equal(t, want, b.driver.Comment(b, b.dest, "people", column), column)
	}
	tells := func() (n int) {
		for _, r := range b.driver.Rows(b, b.dest, load.Changes.Name) {
			if r["action"] == load.ActionDescribe {
				n++
			}
		}
		return n
	}
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	require.Zero(t, tells())

	b.run(2)
	people := described("It's everybody", "what \"they\" are called", schemas.WithDescription(column("age", schemas.Int64), "in years"))
	row := func(ordinal int, id, name, age string) Row {
		r := person(b.pass.Run, ordinal, id, name)
		r["age"] = age
		return r
	}
	b.commit(load.Sweep{}, put{people, []Row{row(0, "2", "bob", "7")}})
	says("", "It's everybody (records of sales.orders)")
	says("name", "what \"they\" are called (/name)")
	says("age", "in years (/age)")
	require.Equal(t, 3, tells())

	b.reopen()
	b.run(3)
	b.commit(load.Sweep{}, put{people, []Row{row(0, "3", "cid", "8")}})
	require.Equal(t, 3, tells(), "already described")

	// A widened column keeps its description. A changed description is recorded.
	b.run(4)
	wide := described("It's everybody", "their name", schemas.WithDescription(column("age", schemas.Text), "in years"))
	b.commit(load.Sweep{}, put{wide, []Row{row(0, "4", "dan", "old")}})
	says("age", "in years (/age)")
	says("name", "their name (/name)")
	require.Equal(t, 4, tells())

	b.run(5)
	b.commit(load.Sweep{}, put{described("", "", column("age", schemas.Text)), []Row{row(0, "5", "eve", "9")}})
	says("", "It's everybody (records of sales.orders)")
	says("age", "in years (/age)")
	require.Equal(t, 4, tells())
}
