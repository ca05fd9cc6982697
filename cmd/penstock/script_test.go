package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){
		"penstock":       func() { _ = os.Unsetenv(heapEnv); main() },
		"hold":           hold,
		"penstock-quick": quick,
		"shell":          shell,
		"xdg-open":       visit,
	})
}

// heapEnv is the environment variable that sets the heap limit of a process.
const heapEnv = "GOMEMLIMIT"

// suite runs all tests of this package. Many tests run commands of penstock in this process, at the same time. The
// heap limit of one command is too small for all of them together: the garbage collector would take half of the CPU
// time. So this process has no limit. A process that is started as penstock sets its own limit as usual.
type suite struct{ *testing.M }

// Run runs the tests.
func (s suite) Run() int {
	if os.Getenv(heapEnv) == "" {
		if err := os.Setenv(heapEnv, "off"); err != nil {
			panic(err)
		}
	}
	return s.M.Run()
}

// TestScripts runs the scripts in testdata/script, which check the promises of the README. Each script has its own
// sandbox at $SANDBOX. TestScriptsPostgres runs the scripts that need Postgres.
func TestScripts(t *testing.T) {
	t.Parallel()
	all := scripts(t, "*.txtar")
	runScripts(t, slices.DeleteFunc(all, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "postgres") }), setupScript, nil)
}

func scripts(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "script", pattern))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// command is a command that scripts can use.
type command = func(*testscript.TestScript, bool, []string)

func runScripts(t *testing.T, files []string, setup func(*testscript.Env) error, more map[string]command) {
	t.Helper()
	cmds := map[string]command{
		"exits":    scriptExits,
		"faults":   scriptFaults,
		"await":    scriptAwait,
		"awaits":   scriptAwaits,
		"stats":    scriptStats,
		"tmpfs":    scriptTmpfs,
		"platform": scriptPlatform,
		"capture":  scriptCapture,
		"sessions": scriptSessions,
		"modes":    scriptModes,
		"tokens":   scriptTokens,
		"bucket":   scriptBucket,
		"surface":  scriptSurface,
		"deliver":  scriptDeliver,
		"follow":   scriptFollow,
	}
	maps.Copy(cmds, more)
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:               setup,
		Condition:           scriptCondition,
		Cmds:                cmds,
	})
}

// setupScript starts the sandbox of a script. The sandbox has no rate limits, because scripts test output, not
// speed.
func setupScript(env *testscript.Env) error {
	platform, err := sandbox.New(sandbox.Options{NoLimits: true, Lists: servers.Lists()})
	if err != nil {
		return err
	}
	server := httptest.NewServer(platform)
	env.Defer(server.Close)
	env.Defer(func() { _ = platform.Close() }) // stops the webhooks
	env.Setenv("SANDBOX", server.URL)
	env.Setenv("MOVED", strings.Replace(server.URL, "127.0.0.1", "localhost", 1)) // another address of the same platform
	env.Setenv("NO_COLOR", "1")
	env.Setenv("GOGC", os.Getenv("GOGC"))
	env.Setenv("TZ", "UTC")
	env.Values[platformKey{}] = platform
	env.Values[environmentKey{}] = env.Vars
	return nil
}

type platformKey struct{}

func scriptCondition(cond string) (bool, error) {
	switch cond {
	case "duckdb":
		return duckdbMissing == "", nil
	case "iceberg":
		return icebergMissing() == "", nil
	case "browser":
		return runtime.GOOS == "linux", nil
	case "mount":
		return mayMount(), nil
	}
	return false, errors.New("unknown condition")
}

// scriptExits runs a program and checks its exit code. Example: exits 75 penstock sync.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// scriptFaults replaces all faults of the sandbox. Usage: faults [FAULT...].
func scriptFaults(ts *testscript.TestScript, neg bool, args []string) {
	var list []sandbox.Fault
	for _, a := range args {
		f, err := sandbox.ParseFault(a)
		ts.Check(err)
		list = append(list, f)
	}
	ts.Check(ts.Value(platformKey{}).(*sandbox.Server).SetFaults(list...))
}

// scriptAwait waits until a file exists. If the file is a socket, it waits until the socket accepts connections.
// Usage: await FILE.
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		file, err := os.Stat(ts.MkAbs(args[0]))
		if err == nil && file.Mode()&os.ModeSocket != 0 {
			var c net.Conn
			if c, err = net.Dial("unix", ts.MkAbs(args[0])); err == nil {
				err = c.Close()
			}
		}
		if err == nil {
			return
		}
	}
	ts.Fatalf("%s did not appear within two minutes", args[0])
}

// scriptAwaits runs a program again and again until its output matches. Usage: awaits REGEXP PROGRAM [ARG...].
func scriptAwaits(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...) // the program may fail while the files that it reads do not exist
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%s: no %s", strings.Join(args[1:], " "), args[0])
}

// scriptStats checks how many requests the sandbox has received: all requests, or only requests that are not on the
// read list. Examples: stats requests 3, and stats outside 0.
func scriptStats(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(platformKey{}).(*sandbox.Server).Stats()
	got := map[string]int{"outside": s.OutsideSum, "requests": s.Requests}[args[0]]
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if (got == want) == neg {
		ts.Fatalf("%s: %d", args[0], got)
	}
}

// scriptPlatform changes the platform's data with a credential that may write. Example: platform POST
// /api/lead/update/3 '{"name":"Ada"}'.
func scriptPlatform(ts *testscript.TestScript, neg bool, args []string) {
	key := sandbox.WritingToken
	if strings.HasPrefix(args[1], "/v2/") {
		key = sandbox.WritingKey
	}
	req, err := http.NewRequest(args[0], ts.Getenv("SANDBOX")+args[1], strings.NewReader(strings.Join(args[2:], "")))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if (resp.StatusCode/100 == 2) == neg {
		ts.Fatalf("%s %s: %s: %s", args[0], args[1], resp.Status, body)
	}
}

// scriptCapture searches the stdout of the last program, and stores the first group of the match in a variable for
// later commands. Usage: capture NAME REGEXP.
func scriptCapture(ts *testscript.TestScript, neg bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("no %s in stdout", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// scriptSessions checks how many sign-ins and how many token refreshes the sandbox has received. Example: sessions 1
// 0.
func scriptSessions(ts *testscript.TestScript, neg bool, args []string) {
	count := map[string]int{}
	for _, c := range ts.Value(platformKey{}).(*sandbox.Server).Stats().Calls {
		count[c.Path] += c.Count
	}
	got := []string{strconv.Itoa(count["/api/login"]), strconv.Itoa(count["/api/refresh"])}
	if slices.Equal(got, args) == neg {
		ts.Fatalf("sign-ins and refreshes: %v", got)
	}
}

// scriptTokens checks how often an OAuth token was requested from the sandbox.
func scriptTokens(ts *testscript.TestScript, neg bool, args []string) {
	got := 0
	for _, c := range ts.Value(platformKey{}).(*sandbox.Server).Stats().Calls {
		if c.Path == "/oauth/token" {
			got += c.Count
		}
	}
	if (strconv.Itoa(got) == args[0]) == neg {
		ts.Fatalf("tokens requested: %d", got)
	}
}

// visit acts as a browser whose user allows every request. It writes the address that it opens to the file "asked",
// and follows the redirects.
func visit() {
	address := os.Args[1]
	err := os.WriteFile(filepath.Join(os.Getenv("WORK"), "asked"), []byte(address), 0o600)
	if err == nil {
		var resp *http.Response
		if resp, err = http.Get(address); err == nil {
			err = resp.Body.Close()
		}
	}
	if err != nil {
		os.Exit(1)
	}
}

// scriptModes checks the modes of files. Example: modes *.db 0600.
func scriptModes(ts *testscript.TestScript, neg bool, args []string) {
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no %s", args[0])
	}
	for _, f := range files {
		info, err := os.Lstat(f)
		ts.Check(err)
		if got := fmt.Sprintf("%04o", info.Mode().Perm()); (got == args[1]) == neg {
			ts.Fatalf("%s: mode %s", f, got)
		}
	}
}

// TestSandboxVerb checks the command sandbox. Its process prints the address, answers requests, sends webhooks, and
// ends without an error when it is interrupted.
func TestSandboxVerb(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	announced := make(chan string, 5)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { announced <- r.Header.Get("Service-Signature") }))
	defer hook.Close()
	cmd.Args = []string{"penstock", "sandbox", "--listen", "127.0.0.1:0", "--json", "--module-off", "crm",
		"--webhook", hook.URL, "--webhook-scheme", "hex", "--webhook-flood", "count=3", "--webhook-fault", "forged=0"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var ready struct {
		URL    string `json:"url"`
		APIKey string `json:"api_key"`
	}
	require.NoError(t, json.NewDecoder(stdout).Decode(&ready), stderr.String())
	req, err := http.NewRequest(http.MethodGet, ready.URL+"/v2/contacts", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+ready.APIKey)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for range 3 {
		require.Regexp(t, "^[0-9a-f]{64}$", <-announced)
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Empty(t, stderr.String())
}
