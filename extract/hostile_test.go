package extract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func hostileFamily(t *testing.T, class schemas.Class, ids []string, answer func(w http.ResponseWriter, id string)) (*fixture, schemas.Stream) {
	t.Helper()
	parent := list("x.invoices", "id")
	child := list("x.pdf", "_context__id")
	child.Class, child.Parent, child.Path = class, "x.invoices", "/api/pdf/{id}"
	if child.Table.Name = "x_pdf"; class == schemas.ClassFile {
		child.Media = "application/pdf"
	}
	child.Params = []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	var invoices []string
	for i, id := range ids {
		invoices = append(invoices, fmt.Sprintf(`{"n":%d,"id":%s}`, i, id))
	}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		id, ok := strings.CutPrefix(r.URL.EscapedPath(), "/api/pdf/")
		switch {
		case r.URL.Path == "/api/x/invoices":
			items(w, "["+strings.Join(invoices, ",")+"]", len(ids), 1, 1)
		case !ok || strings.Contains(id, "/"):
			t.Errorf("request of another path: %q", r.URL.EscapedPath())
		default:
			answer(w, strings.TrimPrefix(r.URL.Path, "/api/pdf/"))
		}
	}, parent, child)
	_, err := read(f.Client, parent, "")
	require.NoError(t, err)
	return f, child
}

func jsonText(id string) string {
	text, _ := json.Marshal(id)
	return string(text)
}

func TestHostileIDs(t *testing.T) {
	refused := []string{
		jsonText("../../admin"), jsonText("a/b"), jsonText(".."), jsonText("."), jsonText("%2e%2e"), jsonText("%2F"), `""`,
		jsonText(strings.Repeat("x", 10<<10)), jsonText("a\x00b"), jsonText("a\nb"), jsonText("a\x7fb"), jsonText(`..\..\admin`),
		jsonText(strings.Repeat("y", 17<<20)),
	}
	taken := []string{
		jsonText("a?b#c"), jsonText("а"), jsonText("CON"), jsonText("nul.pdf"), jsonText("inv"), jsonText("INV"), jsonText("a b"),
		jsonText("a:b@c;d=e"), jsonText("\u202e"), jsonText("é"), jsonText("e\u0301"), "7", "-0", "1e3",
	}
	f, child := hostileFamily(t, schemas.ClassFile, append(refused, taken...), func(w http.ResponseWriter, id string) {
		fmt.Fprint(w, "%PDF-1.4 "+id)
	})
	r, err := read(f.Client, child, "")
	require.NoError(t, err)
	require.Len(t, r.records, len(taken))
	require.Len(t, r.end.Gaps, len(refused))
	for _, g := range r.end.Gaps {
		require.Less(t, len(g.String()), 1000)
	}
	for _, c := range r.cursors {
		require.Less(t, len(c), 64<<10)
	}
	for _, p := range r.parents {
		require.Equal(t, p.Records == 1, p.Complete, "%.40s", p.Tuple)
	}
}

func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"403": func(w http.ResponseWriter) {
			w.WriteHeader(403)
			fmt.Fprint(w, `{"message":"This action is unauthorized."}`)
		},
		"401":      func(w http.ResponseWriter) { w.WriteHeader(401); fmt.Fprint(w, `{"message":"Unauthenticated."}`) },
		"402":      func(w http.ResponseWriter) { w.WriteHeader(402) },
		"500":      func(w http.ResponseWriter) { w.WriteHeader(500) },
		"502":      func(w http.ResponseWriter) { w.WriteHeader(502) },
		"504":      func(w http.ResponseWriter) { w.WriteHeader(504) },
		"409":      func(w http.ResponseWriter) { w.WriteHeader(409) },
		"418":      func(w http.ResponseWriter) { w.WriteHeader(418) },
		"redirect": func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/x"); w.WriteHeader(302) },
		"login": func(w http.ResponseWriter) {
			fmt.Fprint(w, `<html><title>Log in</title><form><input type="password"></form>`)
		},
		"page":        func(w http.ResponseWriter) { fmt.Fprint(w, `<html><title>Hello</title>`) },
		"empty":       func(w http.ResponseWriter) {},
		"list":        func(w http.ResponseWriter) { fmt.Fprint(w, `{"data":[{"id":1},{"id":2}]}`) },
		"bare text":   func(w http.ResponseWriter) { fmt.Fprint(w, `hello`) },
		"broken JSON": func(w http.ResponseWriter) { fmt.Fprint(w, `{"data":{"id":`) },
		"scalar":      func(w http.ResponseWriter) { fmt.Fprint(w, `{"data":7}`) },
		"too large": func(w http.ResponseWriter) {
			for range 80 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		},
		"zip bomb": func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "br"); fmt.Fprint(w, "x") },
		"cut":      func(w http.ResponseWriter) { w.Header().Set("Content-Length", "100"); fmt.Fprint(w, "%PDF-1.4") },
		"hang up":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		for _, class := range []schemas.Class{schemas.ClassFile, schemas.ClassDetail} {
			for _, place := range []int{0, 9} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, class, place), func(t *testing.T) {
					t.Parallel()
					if name == "list" && class == schemas.ClassDetail {
						t.Skip("a detail may be a list")
					}
					ids := make([]string, 10)
					for i := range ids {
						ids[i] = fmt.Sprint(i + 1)
					}
					f, child := hostileFamily(t, class, ids, func(w http.ResponseWriter, id string) {
						switch {
						case id == ids[place]:
							answer(w)
						case class == schemas.ClassFile:
							fmt.Fprint(w, "%PDF-1.4 "+id)
						default:
							fmt.Fprintf(w, `{"data":{"id":%s,"more":"m"}}`, id)
						}
					})
					r, err := read(f.Client, child, "")
					require.NoError(t, err)
					require.Len(t, r.records, 9)
					require.Len(t, r.end.Gaps, 1)
					for _, p := range r.parents {
						require.Equal(t, string(p.Tuple) != "["+ids[place]+"]", p.Complete, "%s", p.Tuple)
					}
				})
			}
		}
	}
}

func TestHostileManyParents(t *testing.T) {
	ids := make([]string, 1200)
	for i := range ids {
		if ids[i] = fmt.Sprint(i); i%4 > 0 {
			ids[i] = jsonText("../" + ids[i])
		}
	}
	f, child := hostileFamily(t, schemas.ClassFile, ids, func(w http.ResponseWriter, id string) {
		fmt.Fprint(w, "%PDF-1.4 "+id)
	})
	r, err := read(f.Client, child, "")
	require.NoError(t, err)
	require.Len(t, r.records, 300)
	require.Len(t, r.end.Gaps, maxGaps)
	var rows int64
	for _, g := range r.end.Gaps {
		rows += g.Rows
	}
	require.EqualValues(t, 900, rows)
	require.Contains(t, r.end.Gaps[maxGaps-1].String(), " and 800 after it: ")

	again, err := read(f.Client, child, r.cursors[len(r.cursors)/2])
	require.NoError(t, err)
	require.Equal(t, r.end.Gaps, again.end.Gaps)
}

func TestHostileParentsOnly(t *testing.T) {
	for _, n := range []int{maxGaps, maxGaps + 50} {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = jsonText(fmt.Sprint("../", i))
		}
		f, child := hostileFamily(t, schemas.ClassFile, ids, func(http.ResponseWriter, string) { t.Error("the child stream was requested") })
		_, err := read(f.Client, child, "")
		classIs(t, err, wire.Refused)
	}
}

func TestGapsBeyondTheLast(t *testing.T) {
	f := &fanPass{pass: &pass{}}
	f.mark.Gaps = make([]Gap, maxGaps)
	f.mark.Gaps[maxGaps-1] = Gap{At: "page 2", Rows: 1}
	for i := range 3 {
		f.mark.Parents = i
		f.gap(tupleRequest{line: fmt.Sprintf("[%d]", i)}, &wire.Error{})
	}
	require.EqualValues(t, 1, f.mark.Gaps[maxGaps-1].Rows)
	require.Len(t, f.mark.Gaps, maxGaps+1)
	require.EqualValues(t, 3, f.withoutAnswer())
}

// A continued pass may fail at its first parent. Then it requests parents that the earlier run has read, to find out
// whether the error concerns only one parent.
func TestHostileLastParentResumed(t *testing.T) {
	ids := make([]string, gatherParents+1)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	down := false
	f, child := hostileFamily(t, schemas.ClassFile, ids, func(w http.ResponseWriter, id string) {
		if down || id == ids[gatherParents] {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, "%PDF-1.4 "+id)
	})
	r, err := read(f.Client, child, "")
	require.NoError(t, err)
	require.Len(t, r.end.Gaps, 1)
	again, err := read(f.Client, child, r.cursors[0])
	require.NoError(t, err)
	require.Empty(t, again.records)
	require.Equal(t, r.end.Gaps, again.end.Gaps)

	down = true
	for _, from := range []state.Cursor{"", r.cursors[0]} {
		_, err = read(f.Client, child, from)
		classIs(t, err, wire.NotEntitled)
	}
}

func TestHostileOutage(t *testing.T) {
	for _, status := range []int{401, 403, 502} {
		ids := make([]string, 50)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		var requested atomic.Int64
		f, child := hostileFamily(t, schemas.ClassFile, ids, func(w http.ResponseWriter, id string) {
			if requested.Add(1) > 30 {
				w.WriteHeader(status)
				return
			}
			fmt.Fprint(w, "%PDF-1.4 "+id)
		})
		_, err := read(f.Client, child, "")
		fault, ok := errors.AsType[*wire.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, status, fault.Status)
		require.Less(t, requested.Load(), int64(70))
	}
}
