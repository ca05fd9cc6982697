package board_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve/board"
)

func (s *served) follow(t *testing.T, header ...string) (*bufio.Reader, context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/events", nil)
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	r := bufio.NewReader(resp.Body)
	require.Equal(t, "retry: 5000", event(t, r))
	return r, stop
}

func event(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var lines []string
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			return strings.Join(lines, " ")
		}
		lines = append(lines, line)
	}
}

func TestEventsGoOnWhereTheyWere(t *testing.T) {
	s := boardOf(t, &told{}, "")
	r, stop := s.follow(t)
	s.feed.Publish(board.Update{Pipeline: "nightly"})
	require.Equal(t, `id: 1 event: change data: {"pipeline":"nightly"}`, event(t, r))
	stop()
	s.feed.Publish(board.Update{Page: "webhooks"})
	s.feed.Publish(board.Update{Pipeline: "nightly"})
	s.feed.Publish(board.Update{Page: "webhooks"})
	r, _ = s.follow(t, "Last-Event-ID", "1")
	require.Equal(t, `id: 3 event: change data: {"pipeline":"nightly"}`, event(t, r))
	require.Equal(t, `id: 4 event: change data: {"page":"webhooks"}`, event(t, r))

	for range 2000 {
		s.feed.Publish(board.Update{Pipeline: "nightly"})
	}
	for _, id := range []string{"1", "99999"} {
		r, _ = s.follow(t, "Last-Event-ID", id)
		require.Equal(t, `id: 2004 event: reset data: {}`, event(t, r))
	}
}

// 300 clients follow the live updates. The board serves maxFollowers of them, and the others get 503. When the board is
// closed, all updates end.
func TestEventsManyFollow(t *testing.T) {
	s := boardOf(t, telling(1, plain), "")
	served, refused := 0, 0
	var bodies []io.ReadCloser
	for range 300 {
		req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/events", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		switch resp.StatusCode {
		case 200:
			served++
			bodies = append(bodies, resp.Body)
		case 503:
			refused++
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			resp.Body.Close()
		}
	}
	require.Equal(t, []int{256, 44}, []int{served, refused})
	require.Equal(t, 200, s.do(t, "GET", "/", "").StatusCode)
	s.board.Close()
	for _, b := range bodies {
		_, err := io.Copy(io.Discard, b)
		require.NoError(t, err)
		b.Close()
	}
}

// Live updates do not move the visitor's focus.
func TestFollowLive(t *testing.T) {
	f := telling(4, plain)
	f.now.Running = nil
	s := boardOf(t, f, "")
	v := tab(t)
	v.run(t, chromedp.Navigate(s.URL+"/"))
	v.sees(t, `document.getElementById("live").dataset.state === "on"`)
	v.run(t, chromedp.Evaluate[chromedp.Void](`window.same = true; document.querySelector("#attention button").focus()`))
	require.Contains(t, eval[string](t, v, `document.querySelector("#running").textContent`), "Nothing is running.")
	for i := range 2 {
		f.mu.Lock()
		f.now.Running = []board.Running{{Run: "r1", Pipeline: "nightly", Streams: 4, Ended: i, Records: int64(1000 + i)}}
		f.mu.Unlock()
		s.feed.Publish(board.Update{Pipeline: "nightly"})
		v.sees(t, fmt.Sprintf(`document.querySelector("#running").textContent.includes("%d of 4 streams · 1,00%d records")`, i, i))
	}
	f.mu.Lock()
	f.now.Running = nil
	f.mu.Unlock()
	s.feed.Publish(board.Update{Pipeline: "nightly"})
	v.sees(t, `document.querySelector("#running").textContent.includes("Nothing is running.")`)
	require.True(t, eval[bool](t, v, `window.same && document.activeElement === document.querySelector("#attention button")`))
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}

func TestSignInInBrowser(t *testing.T) {
	s := boardOf(t, telling(1, plain), token)
	v := tab(t)
	v.run(t, chromedp.Navigate(s.URL+"/pipelines"), chromedp.SendKeys(chromedp.CSS("input[name=token]"), token))
	v.picture(t, "signin-desktop-light")
	require.Empty(t, eval[[]string](t, v, flaws))
	v.run(t, chromedp.Submit(chromedp.CSS("input[name=token]")), chromedp.WaitReady(chromedp.CSS("#pipelines")))
	require.Equal(t, "/pipelines", eval[string](t, v, `location.pathname`))
	v.clicks(t, ".actions button", ".said")
	require.Equal(t, []string{"run nightly []"}, s.facts.noted())
	v.clicks(t, "header form button", "input[name=token]")
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}
