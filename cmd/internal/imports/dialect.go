package imports

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// maxLimit is the largest page size that is configured, even if a document allows more.
const maxLimit = 1000

// paging derives the pagination from the parameters of a list. If several types are possible, it takes the first of
// page, offset, cursor and since_id. If no type is possible, it returns none, and runs detect the pagination.
func paging(o Operation) schemas.Pagination {
	var p schemas.Pagination
	size := query(o, schemas.ParamSize)
	for _, way := range []struct{ kind, meaning string }{
		{"page", schemas.ParamPage}, {"offset", schemas.ParamOffset}, {"cursor", schemas.ParamToken}, {"since_id", schemas.ParamSince},
	} {
		if found := query(o, way.meaning); found != nil && p.Type == "" {
			p.Type, p.Page = way.kind, found.Name
		}
	}
	if p.Type == "" {
		return schemas.Pagination{} // a size parameter without a page parameter may limit the whole list
	}
	if size != nil {
		p.Size, p.Limit = size.Name, min(size.Max, maxLimit)
	}
	return p
}

// meanings lists what a paging parameter in a document may mean.
var meanings = []string{schemas.ParamPage, schemas.ParamOffset, schemas.ParamToken, schemas.ParamSince, schemas.ParamSize}

// query returns the query parameter with this meaning, such as the number of the page. If there are several, it returns
// the parameter with the most usual name.
func query(o Operation, meaning string) *Param {
	for _, name := range schemas.Paging().Parameters(meaning) {
		i := slices.IndexFunc(o.Params, func(p Param) bool { return p.In == "query" && schemas.FoldName(p.Name) == schemas.FoldName(name) })
		if i >= 0 {
			return &o.Params[i]
		}
	}
	return nil
}

// pages returns true if a parameter selects a page or sets its size.
func pages(name string) bool {
	return slices.ContainsFunc(meanings, func(m string) bool { return schemas.Paging().Parameter(m, name) })
}

// actions are words at the end of a path. A request to such a path does something, or returns no records.
var actions = []string{
	"login", "logout", "signin", "signout", "authorize", "callback", "token", "refresh", "revoke", "download", "unsubscribe",
	"confirm", "cancel", "approve", "reject", "delete", "remove", "reset", "run", "start", "stop", "send", "resend", "sync",
	"import", "trigger", "execute", "restore", "archive", "ping", "stream", "ws", "websocket",
}

// isMetadata reports whether a member of an answer is metadata beside the records. Some of these names may also be
// names of a record's fields.
func isMetadata(name string) bool {
	words := schemas.Paging()
	switch words.Role(name) {
	case "", schemas.RoleConstant:
		return words.Beside.Has(name) || words.Ignored.Has(name) || words.EnvelopeWords.Has(name)
	}
	return true
}

// isWrapper reports whether a member with this name usually contains the list.
func isWrapper(name string) bool {
	words := schemas.Paging()
	return words.Lists.Has(name) || words.Wrappers.Has(name)
}
