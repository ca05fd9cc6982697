package extract

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

func papers(t *testing.T, n int, pdf func(w http.ResponseWriter, id string)) (*fixture, schemas.Stream) {
	parent := list("x.invoices", "id")
	child := list("x.pdf", "_context__id")
	child.Class, child.Media, child.Records, child.Parent, child.Path = schemas.ClassFile, "application/pdf", nil, "x.invoices", "/api/pdf/{id}"
	child.Table.Name = "x_pdf"
	child.Params = []schemas.Param{{Name: "id", In: "path", From: "/id"}}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if id, ok := strings.CutPrefix(r.URL.Path, "/api/pdf/"); ok {
			pdf(w, id)
			return
		}
		items(w, rows(0, n, n), n, 1, 1)
	}, parent, child)
	_, err := read(f.Client, parent, "")
	require.NoError(t, err)
	return f, child
}

func TestFiles(t *testing.T) {
	body := func(id string) string { return "%PDF-1.4\n" + id + "\n%%EOF\n" }
	f, child := papers(t, 4, func(w http.ResponseWriter, id string) {
		w.Header().Set("Content-Type", "application/pdf")
		w.Header().Set("Content-Disposition", `attachment; filename="../../invoice `+id+`.pdf"`)
		switch id {
		case "2":
			w.Header().Set("Content-Type", "image/png")
		case "3":
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Del("Content-Disposition")
		}
		fmt.Fprint(w, body(id))
	})
	var files []File
	var records []struct {
		about
		Context struct{ ID int } `json:"_context"`
	}
	for page, err := range f.Pages(t.Context(), child, "") {
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(page.Records, &records))
		files = append(files, page.Files...)
	}
	require.Len(t, records, 4)
	require.Len(t, files, 4)
	for i, r := range records {
		id := fmt.Sprint(i + 1)
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(body(id))))
		require.Equal(t, i+1, r.Context.ID)
		require.Equal(t, body(id), string(files[i].Body))
		require.Equal(t, filepath.Join("x_pdf", hash[:2], hash+".pdf"), files[i].Path)
		require.Equal(t, files[i].Path, r.Path)
		require.Equal(t, hash, r.SHA256)
		require.Equal(t, len(body(id)), r.Size)
		require.Equal(t, "application/pdf", r.Type)
		require.Equal(t, id == "2", r.Mismatch)
	}
	require.Equal(t, "invoice 1.pdf", records[0].Name)
	require.Empty(t, records[2].Name)
}

func TestAnswersThatAreNotFiles(t *testing.T) {
	answer := map[string]string{
		"2": "<!DOCTYPE html><title>Server &amp; Error</title>",
		"4": `{"success":true}`,
		"5": `{"success":false,"message":"Invoice not found"}`,
	}
	f, child := papers(t, 6, func(w http.ResponseWriter, id string) {
		switch {
		case answer[id] != "":
			fmt.Fprint(w, answer[id])
		case id == "6":
			fmt.Fprint(w, strings.Repeat("x", 5<<20))
		default:
			fmt.Fprint(w, "%PDF-1.4 "+id)
		}
	})
	r, err := read(f.Client, child, "")
	require.NoError(t, err)
	require.Len(t, r.records, 2)
	require.Equal(t, 1, r.end.Gone)
	require.Len(t, r.end.Gaps, 3)
	require.Equal(t, "parent [2]: 200: text/html, titled \"Server &amp; Error\" instead of application/pdf", r.end.Gaps[0].String())
	require.Equal(t, "parent [4]: 200: JSON instead of application/pdf", r.end.Gaps[1].String())
	require.Equal(t, "parent [6]: 200: text/plain instead of application/pdf", r.end.Gaps[2].String())
	for _, p := range r.parents {
		require.Equal(t, string(p.Tuple) == "[1]" || string(p.Tuple) == "[3]", p.Complete, "%s", p.Tuple)
	}
}

func TestAllFilesBroken(t *testing.T) {
	f, child := papers(t, 9, func(w http.ResponseWriter, _ string) { fmt.Fprint(w, "<html>down for maintenance</html>") })
	_, err := read(f.Client, child, "")
	classIs(t, err, wire.Malformed)
}

func TestFanOutBrokenParent(t *testing.T) {
	f := newFamily(t, 12)
	f.broken = "7"
	_, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	r, err := read(f.Client, f.child, "")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(wanted(12), ",7,", ",", 1), r.ids())
	require.Len(t, r.end.Gaps, 1)
	require.Contains(t, r.end.Gaps[0].String(), "parent [7]: ")
}

func TestFanOutBrokenParentResumed(t *testing.T) {
	f := newFamily(t, gatherParents+20)
	f.broken = "7"
	_, err := read(f.Client, f.parent, "")
	require.NoError(t, err)
	r, err := read(f.Client, f.child, "")
	require.NoError(t, err)
	require.Greater(t, len(r.cursors), 1)
	again, err := read(f.Client, f.child, r.cursors[0])
	require.NoError(t, err)
	require.Equal(t, r.end.Gaps, again.end.Gaps)
	require.Len(t, again.end.Gaps, 1)
}

func TestFileName(t *testing.T) {
	for disposition, want := range map[string]string{
		`attachment; filename="a.pdf"`:                       "a.pdf",
		`attachment; filename="../../etc/passwd"`:            "passwd",
		`attachment; filename="C:\\temp\\x.pdf"`:             "x.pdf",
		`attachment; filename="con"`:                         "_con",
		`attachment; filename="NUL.pdf"`:                     "_NUL.pdf",
		`attachment; filename*=UTF-8''Rechnung%20%C3%BC.pdf`: "Rechnung ü.pdf",
		`attachment; filename*=UTF-8''..%2F..%2Fx`:           "x",
		`attachment; filename="%2e%2e"`:                      "_2e_2e",
		`attachment; filename=".."`:                          "",
		`attachment; filename="a` + "\u202e" + `fdp.exe"`:    "afdp.exe",
		`attachment`: "",
		``:           "",
	} {
		require.Equal(t, want, fileName(disposition), disposition)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := fileName(`attachment; filename="` + rapid.String().Draw(t, "name") + `"`)
		require.LessOrEqual(t, len(name), maxFileName)
		require.True(t, utf8.ValidString(name))
		require.False(t, strings.ContainsAny(name, `/\`) || strings.ContainsFunc(name, unicode.IsControl) || name == "." || name == "..")
	})
}
