package render

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSuggest(t *testing.T) {
	text := "run `penstock migrate`, then `penstock sync --stream crm.leads`; `penstock serve` reads the rest"
	require.Equal(t, text, Suggest(text, "pipelines.yaml"))
	with := "run `penstock -c 'my $1.yaml' migrate`, then `penstock -c 'my $1.yaml' sync --stream crm.leads`; `penstock serve` reads the rest"
	require.Equal(t, with, Suggest(text, "my $1.yaml"))
	require.Equal(t, with, Suggest(with, "my $1.yaml"))
}
