package imports

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// maxLimit is the largest page size to request, even if a document allows more.
const maxLimit = 1000

// paging derives the pagination from the parameters of a list. If they suggest several types, the first of page, offset,
// cursor and since_id applies. If they suggest none, paging returns no type, and runs detect the pagination.
func paging(o Operation) schemas.Pagination {
	var p schemas.Pagination
	size := query(o, schemas.ParamSize)
	for _, way := range []struct{ kind, family string }{
		{"page", schemas.ParamPage}, {"offset", schemas.ParamOffset}, {"cursor", schemas.ParamToken}, {"since_id", schemas.ParamSince},
	} {
		if found := query(o, way.family); found != nil && p.Type == "" {
			p.Type, p.Page = way.kind, found.Name
		}
	}
	if p.Type == "" {
		return schemas.Pagination{} // a size parameter without paging may be a limit
	}
	if size != nil {
		p.Size, p.Limit = size.Name, min(size.Max, maxLimit)
	}
	return p
}

// families are the kinds of paging parameters.
var families = []string{schemas.ParamPage, schemas.ParamOffset, schemas.ParamToken, schemas.ParamSince, schemas.ParamSize}

// query returns the query parameter that belongs to a family, the most usual one first.
func query(o Operation, family string) *Param {
	for _, name := range schemas.Paging().Parameters(family) {
		i := slices.IndexFunc(o.Params, func(p Param) bool { return p.In == "query" && schemas.FoldName(p.Name) == schemas.FoldName(name) })
		if i >= 0 {
			return &o.Params[i]
		}
	}
	return nil
}

// pages reports whether a parameter belongs to paging.
func pages(name string) bool {
	return slices.ContainsFunc(families, func(f string) bool { return schemas.Paging().Parameter(f, name) })
}

// actions are the last words of paths that, when requested, perform an action or return no data.
var actions = []string{
	"login", "logout", "signin", "signout", "authorize", "callback", "token", "refresh", "revoke", "download", "unsubscribe",
	"confirm", "cancel", "approve", "reject", "delete", "remove", "reset", "run", "start", "stop", "send", "resend", "sync",
	"import", "trigger", "execute", "restore", "archive", "ping", "stream", "ws", "websocket",
}

// isMetadata reports whether a member is metadata next to the records. A word without a meaning for paging may also
// be the name of a record's field.
func isMetadata(name string) bool {
	words := schemas.Paging()
	switch words.Role(name) {
	case "", schemas.RoleConstant:
		return words.Beside(name) || words.Ignored(name) || words.EnvelopeWord(name)
	}
	return true
}

// isWrapper reports whether lists are usually in a member with this name.
func isWrapper(name string) bool {
	words := schemas.Paging()
	return words.NamesList(name) || words.NamesPayload(name)
}
