// Package assistanttest calls the tools of an assistant in tests.
package assistanttest

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// Call calls a tool and returns its structured answer. If the tool fails, Call returns the text of the error. If there is
// no answer, the test ends.
func Call[Out any](t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (out Out, failed string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	if r.IsError {
		return out, r.Content[0].(*mcp.TextContent).Text
	}
	text, err := json.Marshal(r.StructuredContent)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out))
	return out, ""
}
