package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

type killTask struct {
	kind string // kind of the credential
	act  string
	base string
	dir  string
	stop int // the step at which the process kills itself; 0: none
}

const killTaskVar = "PENSTOCK_TEST_CREDENTIAL"

func (v killTask) env() string {
	return fmt.Sprintf("%s=%s %s %s %s %d", killTaskVar, v.kind, v.act, v.base, v.dir, v.stop)
}

func (v killTask) run(t *testing.T) {
	n := 0
	k := keeper(t, v.kind, v.base, v.dir, func(step string) {
		fmt.Println("step", step)
		if n++; n == v.stop {
			killSelf()
			select {}
		}
	})
	if v.act == "insist" {
		k.(*OAuth).opts.Grace = GraceAlways
	}
	var err error
	if v.act == "authorize" {
		err = clientWith(t, k, v.base).SignIn(t.Context(), SignInMethod{Show: browser(t, func(q url.Values) {})})
	} else {
		_, err = clientWith(t, k, v.base).Read(t.Context(), contacts)
	}
	switch {
	case err == nil:
		fmt.Println("end works")
	case errors.Is(err, ErrSignIn):
		fmt.Println("end sign in:", err)
	default:
		fmt.Println("end failed:", err)
	}
}

func killSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = p.Kill()
	}
}

type childResult struct {
	steps int
	end   string
}

func runChildProcess(t *testing.T, r *realm, v killTask, at string) childResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledAnywhere$")
	child.Env = append(os.Environ(), v.env(), "GORACE=atexit_sleep_ms=0")
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	var once sync.Once
	started := make(chan *os.Process, 1)
	r.watch(func(moment string) {
		if moment == at {
			once.Do(func() { _ = (<-started).Kill() })
		}
	})
	require.NoError(t, child.Start())
	started <- child.Process
	_ = child.Wait()
	r.calls.Wait()
	l := childResult{steps: strings.Count(out.String(), "step ")}
	if _, end, ok := strings.Cut(out.String(), "\nend "); ok || strings.HasPrefix(out.String(), "end ") {
		l.end, _, _ = strings.Cut(strings.TrimPrefix(orDefault(end, out.String()), "end "), "\n")
	}
	require.False(t, strings.HasPrefix(l.end, "failed"), out.String())
	return l
}

type scenario struct {
	name    string
	kind    string
	act     string
	prepare func(t *testing.T, r *realm, base, dir string)
}

func scenarios() []scenario {
	expired := func(kind string) func(*testing.T, *realm, string, string) {
		return func(t *testing.T, r *realm, base, dir string) {
			signedIn(t, keeper(t, kind, base, dir, nil), base)
			r.expire()
		}
	}
	lost := func(kind string) func(*testing.T, *realm, string, string) {
		return func(t *testing.T, r *realm, base, dir string) {
			expired(kind)(t, r, base, dir)
			require.Empty(t, runChildProcess(t, r, killTask{kind, "read", base, dir, 0}, "done").end)
		}
	}
	return []scenario{
		{"first sign-in", "login", "read", func(*testing.T, *realm, string, string) {}},
		{"refresh", "login", "read", expired("login")},
		{"refresh", "oauth", "read", expired("oauth")},
		{"grant", "oauth", "authorize", func(*testing.T, *realm, string, string) {}},
		{"another grant", "oauth", "authorize", expired("oauth")},
		{"after a lost answer", "login", "read", lost("login")},
		{"after a lost answer", "oauth", "insist", lost("oauth")},
	}
}

// A process is killed at each step of each scenario, by itself or by the server. The next process works, or reports
// that a person has to sign in. After the sign-in, everything works.
func TestKilledAnywhere(t *testing.T) {
	if text := os.Getenv(killTaskVar); text != "" {
		f := strings.Fields(text)
		stop, err := strconv.Atoi(f[4])
		require.NoError(t, err)
		killTask{f[0], f[1], f[2], f[3], stop}.run(t)
		return
	}
	points := 0
	for _, s := range scenarios() {
		t.Run(s.kind+" "+s.name, func(t *testing.T) {
			steps := s.runWithKill(t, 0, "")
			for _, at := range []string{"received", "done"} {
				s.runWithKill(t, 0, at)
				points++
			}
			stride := 1
			if testing.Short() {
				stride = 4
			}
			for stop := 1; stop <= steps; stop += stride {
				s.runWithKill(t, stop, "")
				points++
			}
		})
	}
	t.Logf("%d kill points", points)
	if !testing.Short() {
		require.GreaterOrEqual(t, points, 100)
	}
}

func (s scenario) runWithKill(t *testing.T, stop int, at string) int {
	t.Helper()
	r := newRealm()
	base, dir := r.serve(t), t.TempDir()
	s.prepare(t, r, base, dir)
	what := fmt.Sprintf("killed at step %d %s", stop, at)
	first := runChildProcess(t, r, killTask{s.kind, s.act, base, dir, stop}, at)
	killed := stop > 0 || at != ""
	require.Equal(t, killed, first.end == "", "%s: %+v", what, first)

	logins, _ := r.counts()
	works := s.works(r, dir, t) || s.kind == "login" // a login signs in automatically
	next := runChildProcess(t, r, killTask{s.kind, "read", base, dir, 0}, "")
	if works {
		require.Equal(t, "works", next.end, what)
	}
	if now, _ := r.counts(); s.kind == "login" {
		require.LessOrEqual(t, now, maxSignIns, what)
	}
	if next.end != "works" {
		require.Regexp(t, `^sign in: .*(lost|before it could store the token|no sign-in|did not renew)`, next.end, what)
		again := runChildProcess(t, r, killTask{s.kind, "read", base, dir, 0}, "")
		require.Regexp(t, "^sign in: ", again.end, "%s: each call reports it", what)
		now, _ := r.counts()
		require.Equal(t, logins, now, "%s: no automatic sign-in", what)
	}
	for token, times := range r.answered {
		require.True(t, times == 1 || s.act == "insist", "%s: %s was presented %d times", what, token, times)
	}
	s.signInAgain(t, base, dir)
	require.Equal(t, "works", runChildProcess(t, r, killTask{s.kind, "read", base, dir, 0}, "").end, what)
	return first.steps
}

// works reports whether the server accepts or would renew the stored tokens. It does not use a refresh token that a
// killed process may have sent: this server ends the grant if a refresh token is used twice.
func (s scenario) works(r *realm, dir string, t *testing.T) bool {
	text, err := state.NewVault(dir, nil).Entry(s.kind).Secret()
	require.NoError(t, err)
	g, err := decodeGrant(text)
	require.NoError(t, err, "half a token is never stored")
	text, err = state.NewVault(dir, nil).Entry(s.kind).Note()
	require.NoError(t, err)
	n, err := decodeNote(text)
	require.NoError(t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.kind == "oauth" {
		return g.refresh != "" && g.refresh.Reveal() == r.refresh && !n.open(g)
	}
	return g.access != "" && g.access.Reveal() == r.session
}

func (s scenario) signInAgain(t *testing.T, base, dir string) {
	t.Helper()
	k := keeper(t, s.kind, base, dir, nil)
	if s.kind == "oauth" {
		signedIn(t, k, base)
		return
	}
	require.NoError(t, clientWith(t, k, base).SignIn(t.Context(), SignInMethod{}))
}
