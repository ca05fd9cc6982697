package extract_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

func TestPresentAsksForOneRecord(t *testing.T) {
	p := newPlatform(t, sandbox.Options{})
	for _, tt := range []struct{ stream, param, there, gone string }{
		{"crm.deal", "id", "1", "987654"},
		{"projects.project", "id", "1", "987654"},
		{"sales.invoice", "invoice_id", "1", "987654"},
		{"hr.employee", "id", "1", "987654"},
	} {
		s, ok := p.catalogue.Find(tt.stream)
		require.True(t, ok)
		c := p.client(t)
		for value, want := range map[string]bool{tt.there: true, tt.gone: false} {
			record, requests, err := c.Record(context.Background(), s, map[string][]byte{tt.param: []byte(value)})
			require.NoError(t, err, tt.stream)
			require.Equal(t, want, record != nil, "%s %s", tt.stream, value)
			require.Equal(t, 1, requests)
		}
	}
	s, _ := p.catalogue.Find("crm.deal")
	require.NoError(t, p.SetFaults(sandbox.Fault{Match: "crm.*", Kind: sandbox.FaultModuleOff}))
	record, _, err := p.client(t).Record(context.Background(), s, map[string][]byte{"id": []byte("1")})
	require.Error(t, err, "an answer that the module is switched off does not show that the record is gone")
	require.Nil(t, record)
}

func TestPresentNeedsAnExplicitNo(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		there      bool
		answered   bool
	}{
		{"the record", `{"success":true,"data":{"id":5,"name":"a"}}`, 200, true, true},
		{"not found", `{"message":"Deal not found."}`, 404, false, true},
		{"gone", `{"message":"gone"}`, 410, false, true},
		{"not found, with status 200", `{"status":"error","message":"Deal not found"}`, 200, false, true},
		{"no such route", `{"message":"The route api/deal/show/5 could not be found."}`, 404, false, false},
		{"no data", `{"success":true,"data":null}`, 200, false, false},
		{"an empty list", `{"success":true,"data":[]}`, 200, false, false},
		{"failed, without a reason", `{"success":false,"message":"Something went wrong"}`, 200, false, false},
		{"forbidden", `{"message":"This action is unauthorized."}`, 403, false, false},
		{"not JSON", `<html>not found</html>`, 200, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, "/api/deal/show/5", r.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer srv.Close()
			s := schemas.Stream{
				Name: "crm.deal", Surface: schemas.SurfaceApp, Class: schemas.ClassDetail, Method: "GET", Path: "/api/deal/show/{id}",
				Parent: "crm.deals", Params: []schemas.Param{{Name: "id", In: "path", From: "/id"}}, Records: []string{"/data"},
			}
			w, err := wire.New(wire.Options{Name: "test", BaseURL: srv.URL, Allow: []wire.Route{{Method: s.Method, Path: s.Path}}, Credential: wire.Bearer("k")})
			require.NoError(t, err)
			defer w.Close()
			c, err := extract.New(extract.Config{App: w})
			require.NoError(t, err)
			defer c.Close()
			record, _, err := c.Record(context.Background(), s, map[string][]byte{"id": []byte("5")})
			require.Equal(t, tt.answered, err == nil, "%v", err)
			require.Equal(t, tt.there, record != nil)
		})
	}
}
