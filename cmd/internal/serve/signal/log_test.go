package signal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedacted(t *testing.T) {
	const secret = "hunter22"
	var b bytes.Buffer
	log := slog.New(Redacted(slog.NewJSONHandler(&b, nil), redactTest))
	log.With("token", secret, "pipeline", "nightly").WithGroup("g").Error("401 for "+secret,
		"error", fmt.Errorf("get page: %w", errors.New("key "+secret)), slog.Group("in", "url", "https://x/"+secret),
		"list", []string{"a", secret}, "status", 401, "aHVudGVyMjI=", "aHVudGVyMjI=")
	require.NotContains(t, b.String(), secret)
	var line map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &line))
	require.Equal(t, "nightly", line["pipeline"])
	require.Equal(t, "401 for [redacted]", line["msg"])
	g := line["g"].(map[string]any)
	require.Equal(t, "get page: key [redacted]", g["error"])
	require.InDelta(t, 401, g["status"], 0)
	require.Equal(t, map[string]any{"url": "https://x/[redacted]"}, g["in"])
	require.NotContains(t, g["aHVudGVyMjI="], "aHVudGVyMjI", "in base64, too")
}
