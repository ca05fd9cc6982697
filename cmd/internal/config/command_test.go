package config

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A thousand sources use one command. It runs once. After servers have refused its output, it runs only once more for
// all sources.
func TestCommandsRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `version: 1
sources:
  from: {file: list.csv}
  template: {app: {base_url: "https://api.example.com/{name}", auth: {token: "${cmd:op shared}"}}}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: "*", to: lake}}
`
		var runs []string
		in := input()
		in.Run = func(argv []string) (string, error) {
			runs = append(runs, argv[1])
			return fmt.Sprintf("tok_%d\n", len(runs)), nil
		}
		in.Rows = func(Listing) (rows []Row, err error) {
			for i := range 1000 {
				rows = append(rows, Row{Fields: map[string]string{"name": fmt.Sprint("w", i)}})
			}
			return rows, nil
		}
		c, err := Parse([]byte(text), in)
		require.NoError(t, err)
		require.Len(t, c.Sources, 1000)
		require.Equal(t, []string{"shared"}, runs)
		for _, s := range c.Sources {
			require.Equal(t, "tok_1", s.App.Auth.Token.Reveal())
			fresh, err := s.App.Auth.reread()
			require.NoError(t, err)
			require.Equal(t, "tok_2", fresh.Reveal())
		}
		require.Len(t, runs, 2)
		time.Sleep(rereadEvery)
		fresh, err := c.Sources[7].App.Auth.reread()
		require.NoError(t, err)
		require.Equal(t, "tok_3", fresh.Reveal())

		runs = nil
		in.Run = func([]string) (string, error) { runs = append(runs, "failed"); return "", errors.New("sealed") }
		c, err = Parse([]byte(text), in)
		require.NoError(t, err, "only the sources have errors, not the file")
		require.Contains(t, c.Sources[999].Faults.Error(), "sealed")
		require.Len(t, runs, 1, "if a command fails, it does not run again for the next source")
	})
}

// A thousand commands hang. Only the first two run, because then the time for failing commands is used up. Commands
// that succeed may take any time.
func TestCommandsThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = `version: 1
sources:
  from: {file: list.csv}
  template: {app: {base_url: "https://api.example.com/{name}", auth: {token: "${cmd:op {name}}"}}}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: "*", to: lake}}
`
		in, runs, fault := input(), 0, errors.New("did not end in 30s")
		in.Run = func([]string) (string, error) {
			runs++
			time.Sleep(30 * time.Second)
			return "token", fault
		}
		in.Rows = func(Listing) (rows []Row, err error) {
			for i := range 1000 {
				rows = append(rows, Row{Fields: map[string]string{"name": fmt.Sprint("w", i)}})
			}
			return rows, nil
		}
		began := time.Now()
		c, err := Parse([]byte(text), in)
		require.NoError(t, err, "only the sources have errors, not the file")
		require.Equal(t, 2, runs)
		require.Equal(t, failingTime, time.Since(began))
		require.ErrorContains(t, c.Sources[1].Faults, "did not end in 30s")
		require.ErrorContains(t, c.Sources[999].Faults, "not run, because other commands of the configuration failed for 1m0s")

		runs, fault = 0, nil
		c, err = Parse([]byte(text), in)
		require.NoError(t, err)
		require.Equal(t, 1000, runs)
		require.Empty(t, c.Sources[999].Faults)
	})
}

// Only credentials, headers, destinations and the state may name a command.
func TestCommandsAreForCredentials(t *testing.T) {
	const text = `version: 1
sources: {main: {app: {base_url: "https://api.example.com", headers: {X-Key: "%s"}, auth: {token: "%s"}}}}
destinations: {lake: "parquet:%s"}
streams: {blog.posts: {path: "/posts/%s", headers: {X-Key: "%s"}}}
pipelines: {all: {from: main, to: lake, streams: ["*"], schedule: {cron: "%s"}}}
serve: {listen: "127.0.0.1:%s", auth: {token: "%s"}}
`
	run := func(values ...any) ([]string, error) {
		var runs []string
		in := input()
		in.Run = func(argv []string) (string, error) {
			runs = append(runs, argv[0])
			return "a value of sixteen bytes or more", nil
		}
		_, err := Parse(fmt.Appendf(nil, text, values...), in)
		return runs, err
	}
	runs, err := run("${cmd:header}", "${cmd:token}", "${cmd:lake}", "x", "${cmd:stream}", "0 2 * * *", "8080", "${cmd:door}")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"header", "token", "lake", "stream", "door"}, slices.Compact(slices.Sorted(slices.Values(runs))))

	runs, err = run("x", "x", "lake", "${cmd:path}", "x", "${cmd:cron}", "${cmd:port}", "a token of sixteen bytes")
	require.Empty(t, runs)
	for _, line := range []string{":4:", ":5:", ":6:"} {
		require.ErrorContains(t, err, line)
	}
	require.ErrorContains(t, err, "${cmd:…} is for credentials, destinations and the state; here, want ${NAME} or ${file:PATH}")
}
