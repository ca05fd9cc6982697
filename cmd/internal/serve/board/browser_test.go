package board_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/serve/access"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/extract/wire"
)

var chrome struct {
	sync.Once
	ctx  context.Context
	stop []context.CancelFunc
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range chrome.stop {
		stop()
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func tab(t *testing.T) *visitor {
	t.Helper()
	chrome.Do(func() {
		path := ""
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
			if p, err := exec.LookPath(name); err == nil && path == "" {
				path = p
			}
		}
		if path == "" {
			chrome.err = fmt.Errorf("no Chromium on the PATH")
			return
		}
		o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true))
		alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), o...)
		ctx, stop := chromedp.NewContext(alloc)
		chrome.ctx, chrome.stop = ctx, []context.CancelFunc{stop, stopAlloc}
		chrome.err = chromedp.Do(ctx)
	})
	if chrome.ctx == nil {
		t.Skip("no browser: ", chrome.err)
	}
	require.NoError(t, chrome.err)
	// Each visitor has separate cookies.
	ctx, stop := chromedp.NewContext(chrome.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	v := &visitor{ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, v.hear))
	v.run(t, call(runtime.Enable, cdp.Empty{}), call(log.Enable, cdp.Empty{}), call(page.Enable, page.EnableParams{}))
	return v
}

type visitor struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
	executed   []string
}

// hear records errors on the console, violations of the content security policy, and injected scripts that have
// run.
func (v *visitor) hear(ev any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			v.complaints = append(v.complaints, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	case *runtime.EventExceptionThrown:
		v.complaints = append(v.complaints, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			v.complaints = append(v.complaints, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventBindingCalled:
		v.executed = append(v.executed, e.Payload)
	case *page.EventJavascriptDialogOpening:
		v.executed = append(v.executed, "dialog: "+e.Message)
		go func() { _ = chromedp.Do(v.ctx, call(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})) }()
	}
}

func (v *visitor) heard() (complaints, executed []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string{}, v.complaints...), append([]string{}, v.executed...)
}

func (v *visitor) run(t *testing.T, does ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, stop := context.WithTimeout(v.ctx, 2*time.Minute)
	defer stop()
	require.NoError(t, chromedp.Do(ctx, does...))
}

func ask[T any](t *testing.T, v *visitor, a chromedp.Action[T]) T {
	t.Helper()
	ctx, stop := context.WithTimeout(v.ctx, 2*time.Minute)
	defer stop()
	out, err := chromedp.Run(ctx, a)
	require.NoError(t, err)
	return out
}

func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func eval[T any](t *testing.T, v *visitor, script string) T {
	t.Helper()
	return ask(t, v, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

func (v *visitor) sees(t *testing.T, script string) {
	t.Helper()
	v.run(t, chromedp.Poll[chromedp.Void](script, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(2*time.Minute)))
}

// clicks() makes the visitor click on an element, the target, and waits until another element appears as the result.
// The target may appear late, because live updates replace elements.
func (v *visitor) clicks(t *testing.T, target, result string) {
	t.Helper()
	v.sees(t, fmt.Sprintf(`(() => { const e = document.querySelector(%q); if (e) e.click(); return !!e })()`, target))
	v.run(t, chromedp.WaitReady(chromedp.CSS(result)))
}

type looks struct {
	name   string
	width  int64
	scheme string
}

func allLooks() []looks {
	return []looks{{"desktop-light", 1280, "light"}, {"desktop-dark", 1280, "dark"}, {"phone-light", 360, "light"}, {"phone-dark", 360, "dark"}}
}

func (v *visitor) look(t *testing.T, l looks) {
	t.Helper()
	v.run(t, call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: 800, DeviceScaleFactor: 1, Mobile: l.width < 700}),
		call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}}}))
}

// picture writes a picture of the page into the folder PENSTOCK_TEST_ARTIFACTS, for a person to look at. Without this
// variable it does nothing, because no test looks at pictures, and making them takes time.
func (v *visitor) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("PENSTOCK_TEST_ARTIFACTS")
	if dir == "" {
		return
	}
	png := ask(t, v, chromedp.FullScreenshot(100))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

type served struct {
	*httptest.Server
	board *board.Board
	facts *told
	feed  *board.Feed

	opened atomic.Int64 // how often a destination was opened
}

func boardOf(t *testing.T, f *told, token string) *served {
	t.Helper()
	guard := access.New(access.Options{})
	if token != "" {
		guard.Define([]access.Token{{Name: "owner", Secret: wire.Secret(token), Role: access.Operate}})
	}
	return guardedBoard(t, f, guard)
}

func guardedBoard(t *testing.T, f *told, guard *access.Guard) *served {
	t.Helper()
	s := &served{facts: f, feed: &board.Feed{}}
	var err error
	s.board, err = board.New(board.Config{Facts: f, Control: control{f}, Feed: s.feed, Access: guard, Record: f.record, Version: "1.2.3"})
	require.NoError(t, err)
	s.Server = httptest.NewServer(s.board)
	t.Cleanup(func() { s.board.Close(); s.Server.Close() })
	return s
}

func pages(f *told) []string {
	esc := func(s string) string { return strings.ReplaceAll(escape(s), "+", "%20") }
	p, s, r := esc(f.pipelines[0].Name), esc(f.streams[0].Name), esc(f.runs[0].ID)
	return []string{"/", "/pipelines", "/pipelines/" + p, "/sources", "/streams", "/pipelines/" + p + "/streams/" + s, "/runs", "/runs/" + r, "/history", "/history?range=90d&pipeline=" + p, "/history/series?by=source", "/graph", "/rejects", "/schema", "/webhooks", "/rate", "/audit"}
}
