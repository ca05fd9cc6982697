package extract

import (
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

func TestQuoted(t *testing.T) {
	for _, text := range []string{"", ".", "data/items", "true", "False", "NULL", "no", "On", "y", ".inf", ".NaN", "a b", "a: b", "7", "~", "é", "data.items"} {
		var back any
		require.NoError(t, yaml.Unmarshal([]byte(quoted(text)), &back), text)
		require.Equal(t, text, back)
	}
	require.Equal(t, "data/items", quoted("data/items"))
	require.Equal(t, `"no"`, quoted("no"), "YAML 1.1 reads no as false")
}
