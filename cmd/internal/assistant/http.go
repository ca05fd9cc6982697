package assistant

import (
	"context"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// maxRequest is the maximum size of a request in bytes. // Invariant 6
const maxRequest = 256 << 10

// serverKey is the key of the server for a request in the context of the request.
type serverKey struct{}

// Handler answers assistants over streamable HTTP. A caller needs a token with the role read, and for rows the role
// query. Each request is answered without a session: any daemon that shares the tokens can answer it, and a removed
// token has no effect from the next request on.
func (a *Assistant) Handler(guard *access.Guard) http.Handler {
	answer := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		s, _ := r.Context().Value(serverKey{}).(*mcp.Server)
		return s
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxRequest,
		DisableLocalhostProtection: true, // the daemon checks the host name of each request, and it may be behind a proxy
	})
	own := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := guard.Program(r, access.Read)
		if err != nil {
			http.Error(w, "access: "+err.Error(), access.Status(w.Header(), err))
			return
		}
		c := caller{ctx: r.Context(), name: id.Name, noRows: mayNotQuery(guard, id)}
		answer.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), serverKey{}, a.server(c))))
	})
	return http.NewCrossOriginProtection().Handler(own) // no page of another site may ask
}

// mayNotQuery returns why a caller may not read rows, or nil if it may.
func mayNotQuery(guard *access.Guard, id access.Identity) error {
	switch err := guard.Rows(id); {
	case errors.Is(err, access.ErrNoRows):
		return failure.Hinted(errors.New("penstock serve has no token, so it returns no rows"),
			"set `serve: {auth: {token: …}}` in the configuration and send it as a bearer token, or start `penstock mcp` instead")
	case err != nil:
		return failure.Hinted(errors.New("the role of this token does not allow to read rows"), "set `role: query` for the token in the configuration of penstock")
	}
	return nil
}
