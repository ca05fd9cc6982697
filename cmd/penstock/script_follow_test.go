package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// environmentKey is the key of the environment of a script, among the values of testscript.
type environmentKey struct{}

// reader types the commands of a page into a shell, and compares what they print with the page.
type reader struct {
	ts      *testscript.TestScript
	shell   io.WriteCloser
	printed *bufio.Reader
	sandbox string   // the address of the sandbox that the page has started
	running []server // commands that run until they are stopped
}

// server is a command that runs until it is stopped, with the files for its process ID and for what it prints.
type server struct{ pid, out string }

// The page shows this address. The test uses a free port, because several tests may run at the same time.
const pageSandbox = "http://" + sandboxListen

// step is a command of a page with its output, or a statement for the SQL editor.
type step struct{ typed, prints, sql string }

// stepsOf returns the steps of a page. A block of the language console has commands and their outputs, and a block of
// the language sql has a statement for the SQL editor.
func stepsOf(page string) (all []step) {
	for _, m := range regexp.MustCompile("(?ms)^```(console|sql)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if m[1] == "sql" {
			all = append(all, step{sql: m[2]})
			continue
		}
		for line := range strings.Lines(m[2]) {
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, step{typed: strings.TrimSpace(typed)})
				continue
			}
			all[len(all)-1].prints += line
		}
	}
	return all
}

// scriptFollow follows a page word by word. Each command of the page runs, in order, in one shell, and must print what
// the page shows. Each statement for the SQL editor must have a chart. Times, run IDs and ports may differ. Usage:
// follow PAGE.
func scriptFollow(ts *testscript.TestScript, neg bool, args []string) {
	page, err := os.ReadFile(filepath.Join(moduleRoot, args[0]))
	ts.Check(err)
	steps := stepsOf(string(page))
	if neg || len(steps) == 0 {
		ts.Fatalf("%s has no commands", args[0])
	}
	f := &reader{ts: ts}
	f.open()
	for _, s := range steps {
		switch {
		case s.sql != "":
			f.charts(s.sql)
		case slices.Contains([]string{"sandbox", "ui", "serve"}, append(strings.Fields(s.typed), "", "")[1]):
			f.starts(s)
		default:
			f.types(s)
		}
	}
	f.stops()
}

// open starts the shell.
func (f *reader) open() {
	c := exec.Command("sh")
	c.Env = f.ts.Value(environmentKey{}).([]string)
	c.Dir = f.ts.MkAbs(".")
	out, in, err := os.Pipe()
	f.ts.Check(err)
	c.Stdout, c.Stderr = in, in
	f.shell, err = c.StdinPipe()
	f.ts.Check(err)
	f.ts.Check(c.Start())
	f.ts.Check(in.Close())
	f.printed = bufio.NewReader(out)
	f.ts.Defer(func() {
		_ = f.shell.Close()
		for _, s := range f.running { // after a failure
			_ = s.signal(syscall.SIGKILL)
		}
		_ = c.Wait()
		_ = out.Close()
	})
}

// types runs a command, and compares its output with the page.
func (f *reader) types(s step) {
	const mark = "the-command-has-ended"
	_, err := fmt.Fprintf(f.shell, "%s\nprintf '%s %%s\\n' $?\n", f.here(s.typed), mark)
	f.ts.Check(err)
	var printed strings.Builder
	for {
		line, err := f.printed.ReadString('\n')
		f.ts.Check(err)
		if before, code, ended := strings.Cut(line, mark+" "); ended {
			printed.WriteString(before)
			if code != "0\n" {
				f.ts.Fatalf("$ %s\n%sexit code %s", s.typed, printed.String(), code)
			}
			break
		}
		printed.WriteString(line)
	}
	if !f.matches(s.prints, printed.String()) {
		f.ts.Fatalf("$ %s prints\n%s\nand the page shows\n%s", s.typed, printed.String(), s.prints)
	}
}

// here replaces the address that the page shows by that of the sandbox.
func (f *reader) here(text string) string {
	if f.sandbox == "" {
		return text
	}
	return strings.ReplaceAll(text, pageSandbox, f.sandbox)
}

// starts runs a command that does not end, and waits until it has printed what the page shows. A command other than the
// sandbox stops the previous one first, as the page says.
func (f *reader) starts(s step) {
	if len(f.running) > 1 {
		f.stop()
	}
	typed := s.typed
	switch { // the page has fixed ports
	case f.sandbox == "":
		typed += " --listen 127.0.0.1:0"
	case strings.HasPrefix(typed, "penstock serve"):
		f.types(step{typed: `echo 'serve: {listen: "127.0.0.1:0"}' >> ` + defaultConfig})
	}
	n := len(f.running)
	one := server{f.ts.MkAbs(fmt.Sprintf("../pid-%d", n)), f.ts.MkAbs(fmt.Sprintf("../out-%d", n))}
	f.types(step{typed: fmt.Sprintf("%s >%s 2>&1 & echo $! >%s", typed, one.out, one.pid)})
	f.running = append(f.running, one)
	var printed []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		printed, _ = os.ReadFile(one.out)
		if at := regexp.MustCompile(`^sandbox on (http://\S+)\n`).FindSubmatch(printed); f.sandbox == "" && at != nil {
			f.sandbox = string(at[1])
		}
		if f.matches(s.prints, string(printed)) {
			return
		}
	}
	f.ts.Fatalf("$ %s prints\n%s\nand the page shows\n%s", s.typed, printed, s.prints)
}

// stops ends all commands that are still running.
func (f *reader) stops() {
	for len(f.running) > 0 {
		f.stop()
	}
}

// stop stops the command that was started last, and waits until it has ended. It must end within 30 seconds.
func (f *reader) stop() {
	last := f.running[len(f.running)-1]
	f.ts.Check(last.signal(syscall.SIGTERM)) // a shell without a terminal makes its background processes ignore SIGINT
	kill := time.AfterFunc(30*time.Second, func() { _ = last.signal(syscall.SIGKILL) })
	defer kill.Stop()
	f.types(step{typed: fmt.Sprintf("wait $(cat %s); [ $? -ne 137 ]", last.pid)})
	f.running = f.running[:len(f.running)-1]
}

// signal sends a signal to the command.
func (s server) signal(sig os.Signal) error {
	text, err := os.ReadFile(s.pid)
	if err != nil {
		return err
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		return err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// charts runs a statement in the SQL editor of the dashboard that was started last. The result must have a chart.
func (f *reader) charts(sql string) {
	link := regexp.MustCompile(`http://\S+/signin\?\S+`).FindString(f.ts.ReadFile(f.running[len(f.running)-1].out))
	at, err := url.Parse(link)
	f.ts.Check(err)
	jar, err := cookiejar.New(nil)
	f.ts.Check(err)
	client := &http.Client{Jar: jar}
	read := func(resp *http.Response, err error) string {
		f.ts.Check(err)
		text, err := io.ReadAll(resp.Body)
		f.ts.Check(err)
		f.ts.Check(resp.Body.Close())
		return string(text)
	}
	read(client.Get(link))
	editor := at.ResolveReference(&url.URL{Path: "/data/warehouse/query"}).String()
	mark := regexp.MustCompile(`name="mark" value="([^"]+)"`).FindStringSubmatch(read(client.Get(editor)))
	if mark == nil {
		f.ts.Fatalf("%s has no editor", editor)
	}
	result := read(client.PostForm(editor, url.Values{"sql": {sql}, "mark": {mark[1]}}))
	if !strings.Contains(result, "<figure") {
		f.ts.Fatalf("this statement has no chart:\n%s\n%s", sql, result)
	}
}

// varies has what differs from run to run, and what the test replaces it by.
var varies = []struct {
	text *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(` \(with base_url: \S+ in pipelines\.yaml\)`), ""}, // the sandbox has a free port
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`link=[A-Z2-7]+`), "link=LINK"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d(\.\d+)?Z?)?\b`), "TIME"},
	{regexp.MustCompile(`(?m)^TIME INF \d+/\d+ streams .*\n`), ""}, // progress of a slow run
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|s|µs|m|h)\b`), "DURATION"},
	{regexp.MustCompile(`\b\d+ requests\b`), "N requests"},
	{regexp.MustCompile(`off by \S+ % and \S+ %`), "off by M % and N %"},
	{regexp.MustCompile(`\brun [0-9a-z]{12}\b`), "run RUN"},
	{regexp.MustCompile(`─+`), "─"},
	{regexp.MustCompile(`[ \t]+`), " "}, // the width of a column depends on its texts
	{regexp.MustCompile(`(?m) $`), ""},
}

// matches reports whether a command has printed what the page shows. A line … on the page is any number of lines.
func (f *reader) matches(shown, printed string) bool {
	want, got := shown, printed
	for _, v := range varies {
		want, got = v.text.ReplaceAllString(want, v.by), v.text.ReplaceAllString(got, v.by)
	}
	var pattern bytes.Buffer
	for line := range strings.Lines(want) {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(regexp.QuoteMeta(line))
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(got)
}
