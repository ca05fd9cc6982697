package board_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// The audit log has the whole statement, and the filters of a page with rows. A statement that is too long is reported.
func TestDataAudited(t *testing.T) {
	s, link := dataBoard(t, access.Query, leadName)
	c := s.formClient(t, link)
	c.send("GET", tableOf+"?column=name&op=is&value=Ada&column=id&op=lt&value=9", nil)
	c.send("GET", editor, nil)
	const head, tail = "SELECT ';", "' AS long"
	long := head + strings.Repeat(";", browse.MaxStatement-len(head)-len(tail)) + tail // each ; takes three characters in a form
	before := s.opened.Load()
	status, text := c.send("POST", editor, url.Values{"sql": {long}, "mark": {c.mark}})
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, text, `role="alert"`)
	require.Contains(t, text, "crm_leads&#34;:[", "names for completion")
	require.LessOrEqual(t, s.opened.Load()-before, int64(1), "one opening for the statement and the names")
	status, text = c.send("POST", editor, url.Values{"sql": {long + " " + strings.Repeat(";", 10)}, "mark": {c.mark}})
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "at most 65536 are allowed")
	status, text = c.send("POST", editor, url.Values{"sql": {long + long}, "mark": {c.mark}})
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Contains(t, text, "the form is too large")
	var objects []string
	for _, a := range s.facts.recorded {
		objects = append(objects, a.Object)
	}
	require.Contains(t, objects, `crm_leads in warehouse where name is "Ada" and id lt "9"`)
	require.Contains(t, objects, "warehouse: "+long)
}

// A browser can be signed in to two dashboards on two ports of one host.
func TestTwoDashboardsOnOneHost(t *testing.T) {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := http.Client{Jar: jar}
	one, first := dataBoard(t, access.Query, leadName)
	two, second := dataBoard(t, access.Query, leadName)
	for _, link := range []string{first, second} {
		resp, err := client.Get(link)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "0; url=/data", resp.Header.Get("Refresh"))
	}
	for _, address := range []string{one.URL + "/data", two.URL + "/data"} {
		resp, err := client.Get(address)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "/data", resp.Request.URL.Path, "the visitor must sign in again")
	}
}
