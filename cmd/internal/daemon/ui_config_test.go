package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

// No part of the URL of `penstock ui --to` is a reference.
func TestConfigForEscapes(t *testing.T) {
	const url = "postgres://ann:${HOME}$${x@db.example/w"
	file, err := ConfigFor(t.TempDir(), url)
	require.NoError(t, err)
	c, err := (&open.Opener{File: file, Kinds: []open.Kind{{Scheme: "postgres"}}}).LoadDestinations()
	require.NoError(t, err)
	require.Equal(t, url, c.Destinations[0].URL.Reveal())
}
