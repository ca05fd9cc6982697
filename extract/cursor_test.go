package extract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/state"
)

func TestCursorUnknown(t *testing.T) {
	for _, c := range []state.Cursor{
		"x", "{}", "17", `{"v":2,"pass":"a"}`, `{"v":1}`, `{"v":1,"pass":"a","more":1}`, `{"v":1,"pass":"a"} ` + "x", `{"v":1,"pass":"a"}{}`,
		`{"v":1,"pass":"a","pager":"page","at":"x","param":"page"}`, `{"v":1,"pass":"a","pager":"page","at":"-1","param":"page"}`,
		`{"v":1,"pass":"a","pager":"cursor","param":"c"}`, `{"v":1,"pass":"a","pager":"jump","at":"1","param":"c"}`,
		`{"v":1,"pass":"a","pages":-1}`, `{"v":1,"pass":"a","form":9}`, `{"v":1,"pass":"a","records":"data"}`, `{"v":1,"pass":"a","at":"7"}`,
	} {
		_, _, err := parsePassCursor(c)
		require.ErrorIs(t, err, ErrCursor, "%s", c)
	}
	_, err := read(serve(t, nil, list("x.things")).Client, list("x.things"), "nonsense")
	require.ErrorIs(t, err, ErrCursor)
}

func TestCursorsDiffer(t *testing.T) {
	a, b := newPassCursor(list("x.things")), newPassCursor(list("x.things"))
	require.NotEqual(t, a.cursor(), b.cursor())
	require.NotEqual(t, a.ending(), b.ending())
	_, resumed, err := parsePassCursor(a.ending())
	require.NoError(t, err)
	require.False(t, resumed)
	require.NotEqual(t, fingerprint(list("x.things")), fingerprint(list("x.others")))
}

func FuzzCursor(f *testing.F) {
	m := newPassCursor(list("x.things"))
	f.Add(string(m.cursor()))
	f.Add(string(m.ending()))
	m.Kind, m.Param, m.At, m.Pointer, m.Form, m.Total, m.Pages, m.Rows, m.Step = paging.KindPage, "page", "17", "/data/items", records.FormList, 12, 3, 30, 10
	f.Add(string(m.cursor()))
	m.Kind, m.Param, m.At = paging.KindCursor, "cursor", "eyJ\"x"
	f.Add(string(m.cursor()))
	m.Parents, m.Gone, m.Tuples = 3, 1, "ff"
	f.Add(string(m.cursor()))
	f.Fuzz(func(t *testing.T, c string) {
		m, _, err := parsePassCursor(state.Cursor(c))
		if err != nil || c == "" {
			return
		}
		again, _, err := parsePassCursor(m.cursor())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
