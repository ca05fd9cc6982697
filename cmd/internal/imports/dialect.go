package imports

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// Names that lists' parameters go by, in lower case without separators, the
// likelier ones first.
var (
	pageNames   = []string{"page", "pagenumber", "pageno", "pagenum", "currentpage", "pageindex"}
	offsetNames = []string{"offset", "skip", "start", "startindex", "startat"}
	cursorNames = []string{"cursor", "pagetoken", "nexttoken", "nextcursor", "continuationtoken", "continuation", "after", "startingafter", "marker", "next"}
	sinceNames  = []string{"sinceid", "afterid"}
	sizeNames   = []string{"perpage", "pagesize", "limit", "maxresults", "pagelimit", "take", "top", "size", "count", "rows", "first"}
)

// folded is a parameter's name without what APIs differ in: page[size],
// page_size, pageSize and _pageSize are one.
func folded(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", "[", "", "]", "", "$", "", ".", "").Replace(name))
}

// maxLimit is the largest page that is asked for, whatever a document allows.
const maxLimit = 1000

// paging is what the parameters of a list say of its pages. The type is left
// open where they name more than one way, or none.
func paging(o Operation) schemas.Pagination {
	var p schemas.Pagination
	size := query(o, sizeNames)
	for _, way := range []struct {
		kind  string
		names []string
	}{{"page", pageNames}, {"offset", offsetNames}, {"cursor", cursorNames}, {"since_id", sinceNames}} {
		if found := query(o, way.names); found != nil && p.Type == "" {
			p.Type, p.Page = way.kind, found.Name
		}
	}
	if p.Type == "" {
		return schemas.Pagination{} // a size alone may as well be a cut
	}
	if size != nil {
		p.Size, p.Limit = size.Name, min(size.Max, maxLimit)
	}
	return p
}

// query is the first parameter of the query with one of these names.
func query(o Operation, names []string) *Param {
	for _, name := range names {
		i := slices.IndexFunc(o.Params, func(p Param) bool { return p.In == "query" && folded(p.Name) == name })
		if i >= 0 {
			return &o.Params[i]
		}
	}
	return nil
}

// pages reports whether the parameter belongs to paging.
func pages(name string) bool {
	f := folded(name)
	for _, names := range [][]string{pageNames, offsetNames, cursorNames, sinceNames, sizeNames} {
		if slices.Contains(names, f) {
			return true
		}
	}
	return false
}

// actions are last words of paths that do something when they are asked for,
// or whose answer is no data.
var actions = []string{
	"login", "logout", "signin", "signout", "authorize", "callback", "token", "refresh", "revoke", "download", "unsubscribe",
	"confirm", "cancel", "approve", "reject", "delete", "remove", "reset", "run", "start", "stop", "send", "resend", "sync",
	"import", "trigger", "execute", "restore", "archive", "ping", "stream", "ws", "websocket",
}

// wrappers are members that lists stand in.
var wrappers = []string{"data", "items", "results", "records", "rows", "entries", "values", "value", "list", "content", "hits", "objects", "elements", "result"}

// envelope are members that stand beside records and belong to no record.
var envelope = []string{
	"success", "issuccess", "ok", "status", "statuscode", "code", "message", "error", "errors", "warnings", "meta", "metadata", "pagination", "paging",
	"links", "link", "total", "totalcount", "totalitems", "totalpages", "totalresults", "count", "page", "perpage", "pagesize", "currentpage", "lastpage",
	"pages", "limit", "offset", "skip", "next", "previous", "prev", "first", "last", "nextcursor", "prevcursor", "cursor", "hasmore", "hasnext", "nexttoken",
	"nextpagetoken", "nexturl", "from", "to", "size", "number", "object", "type", "url", "kind", "etag", "truncated", "incompleteresults", "requestid",
	"nextpage", "pagecount", "timestamp", "included", "facets", "filters", "self", "apiversion", "resultcount", "path", "lastpageurl", "firstpageurl",
	"nextpageurl", "prevpageurl",
}

func beside(name string) bool { return slices.Contains(envelope, folded(name)) }
