package config

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCommandsRunOnce: a command that the sources of a list share runs once while the
// configuration is read, and once more for all of them when servers refuse what it printed.
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
			fresh, err := s.App.Auth.again()
			require.NoError(t, err)
			require.Equal(t, "tok_2", fresh.Reveal())
		}
		require.Len(t, runs, 2)
		time.Sleep(rereadEvery)
		fresh, err := c.Sources[7].App.Auth.again()
		require.NoError(t, err)
		require.Equal(t, "tok_3", fresh.Reveal())

		runs = nil
		in.Run = func([]string) (string, error) { runs = append(runs, "failed"); return "", errors.New("sealed") }
		c, err = Parse([]byte(text), in)
		require.NoError(t, err, "a source with a fault stops no other")
		require.Contains(t, c.Sources[999].Faults.Error(), "sealed")
		require.Len(t, runs, 1, "a command that fails does so once")
	})
}
