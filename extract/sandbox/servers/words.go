package servers

// The names that lists of the field use, by what they name. Servers are drawn from
// them.
var words = map[string][]string{
	"page":   {"page", "page", "page", "p", "page_number", "pageNumber", "pageNo", "pageIndex", "page[number]", "_page", "paged"},
	"offset": {"offset", "offset", "skip", "start", "startIndex", "startAt", "$skip", "_start", "page[offset]", "from"},
	"token":  {"cursor", "after", "page_token", "pageToken", "next_token", "starting_after", "start_cursor", "page[cursor]", "page[after]", "continuation_token", "bookmark", "scroll_id", "marker", "next", "position", "offset", "page"},
	"keyset": {"starting_after", "after_id", "since_id", "last_id", "after", "from_id", "cursor"},
	"moment": {"since", "created_after", "after", "start_time", "from"},
	"newest": {"before", "created_before", "until", "end_time", "max_time"},
	"size":   {"per_page", "limit", "page_size", "size", "pageSize", "perPage", "_limit", "page[size]", "take", "count", "max_results", "maxResults", "$top", "page[limit]"},

	"total":        {"total", "total", "total_count", "totalCount", "total_items", "totalResults", "totalElements", "recordsTotal", "numFound", "count", "total_size", "records"},
	"total header": {"X-Total-Count", "X-Total", "X-WP-Total", "Total-Count", "Pagination-Count"},
	"total abroad": {"gesamt", "anzahl", "cantidad_total", "nombre_total", "totale_risultati", "aantal"},
	"pages":        {"total_pages", "last_page", "totalPages", "page_count", "pages", "num_pages", "lastPage"},
	"number":       {"page", "current_page", "currentPage", "page_number", "pageNumber"},
	"limit":        {"per_page", "limit", "page_size", "pageSize", "size"},
	"count":        {"count", "size", "returned", "result_count", "numberOfElements"},
	"offset said":  {"offset", "skip", "start", "startAt"},
	"remaining":    {"remaining", "left", "remaining_count", "items_remaining"},
	"more":         {"has_more", "hasMore", "has_next", "hasNextPage", "has_next_page", "more", "is_truncated", "isTruncated", "IsTruncated", "more_records", "truncated_list", "has_more_items"},
	"last":         {"is_last", "isLast", "last", "is_last_page", "end_of_records", "finished", "eof", "complete_list", "isLastPage", "done"},

	"next token":  {"next_cursor", "nextCursor", "next_page_token", "nextPageToken", "next_token", "nextToken", "continuation_token", "endCursor", "end_cursor", "bookmark", "scroll_id", "next_marker", "NextMarker", "cursor", "after", "continue", "next"},
	"next number": {"next_page", "nextPage", "next"},
	"next offset": {"next_offset", "nextOffset", "next_start", "nextPageStart"},
	"next url":    {"next", "next_page_url", "nextLink", "next_link", "next_url", "nextPage", "next_page", "next_href", "nextUri"},
	"next header": {"X-Next-Cursor", "X-Next-Page-Token", "Next-Cursor", "X-Continuation-Token", "Next-Page-Token", "X-Next-Token", "Pagination-Cursor"},
	"page header": {"X-Next-Page", "Next-Page"},
	"more header": {"X-Has-More", "Has-More"},

	"beside": {"meta", "pagination", "paging", "page_info", "pageInfo", "response_metadata", "metadata", "info", "_meta"},
}

// statements are the ways to say that an answer is incomplete.
var statements = []Fault{
	{At: "/partial", Value: raw(`true`)},
	{At: "/meta/partial", Value: raw(`true`)},
	{At: "/truncated", Value: raw(`true`)},
	{At: "/timed_out", Value: raw(`true`)},
	{At: "/complete", Value: raw(`false`)},
	{At: "/meta/complete", Value: raw(`false`)},
	{At: "/incomplete_results", Value: raw(`true`)},
	{At: "/status", Value: raw(`"partial"`)},
	{At: "/errors", Value: raw(`[{"message":"shard 3 did not answer"}]`)},
	{At: "/warnings", Value: raw(`["results are incomplete"]`)},
	{At: "/failures", Value: raw(`[{"shard":2}]`)},
	{At: "/_shards", Value: raw(`{"total":3,"successful":2,"failed":1}`)},
	{At: "/isPartial", Value: raw(`true`)},
	{At: "header X-Partial", Value: raw(`true`)},
	{Status: 206},
}
