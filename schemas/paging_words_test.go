package schemas

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVocabularyWords(t *testing.T) {
	v := Paging()
	for what, c := range map[string]struct {
		is      func(string) bool
		yes, no string
	}{
		"incomplete":              {v.States.Has, "Timed_Out", "done"},
		"beside":                  {v.Beside.Has, "_meta", "customer"},
		"ignored":                 {v.Ignored.Has, "facetCounts", "customer"},
		"relation":                {v.Relations.Has, "Prev", "self"},
		"address":                 {v.Addresses.Members.Has, "href", "id"},
		"names an address":        {v.NamesAddress, "nextPageUrl", "nextPage"},
		"lower bound":             {v.Totals.LowerBounds.Has, "gte", "eq"},
		"page count":              {v.PageCounts.Has, "totalPages", "total"},
		"no token":                {v.NoToken, "None", "2"},
		"empty token":             {v.NoToken, "", " "},
		"continues":               {v.Continues, "xMarker", "colour"},
		"continues forward":       {v.Continues, "resume", "resumePrev"},
		"not for synchronization": {v.Continues, "cursor9", "syncCursor"},
		"never counts":            {v.NeverCounts, "itemId", "idle"},
		"is an amount":            {v.NeverCounts, "totalAmountDue", "amounting"},
		"list":                    {v.Lists.Has, "Rows", "customers"},
		"payload":                 {v.Wrappers.Has, "queryResponse", "customers"},
		"not records":             {v.NotRecords, "breadcrumbs", "Breadcrumbs"},
		"chart data":              {v.NotRecords, "chartData", "data"},
		"list type":               {v.ListType, "CustomerList", "customer"},
		"envelope word":           {v.EnvelopeWords.Has, "status_code", "email"},
		"header":                  {v.HeaderOfPages, "X-Next-Thing", "X-RateLimit-Limit"},
		"page object":             {v.PageObjects.Has, "Pagination", "meta"},
		"time":                    {v.TimeField, "paidOn_date", "dated"},
		"change":                  {v.ChangeField, "lastModified", "exchange_at"},
		"creation":                {v.CreationField, "createdAt", "recreation_updated"},
		"money":                   {v.MoneyField, "price_net", "net_price"},
	} {
		require.True(t, c.is(c.yes), "%s: %s", what, c.yes)
		require.False(t, c.is(c.no), "%s: %s", what, c.no)
	}
	for what, names := range map[string][]string{
		"relations": v.Links.Relation, "targets": v.Links.Target, "marks": v.Links.Marks, "totals": v.Totals.Members, "lists": v.Lists, "wrappers": v.Wrappers,
		"types": v.ListTypes.Members, "list members": v.ListMembers, "envelope": v.EnvelopeMembers, "record tokens": v.RecordTokens, "sandbox": v.Sandbox["page"], "keys": v.Fields.Keys, "labels": v.Fields.Labels, "sorts": v.Sorts,
		"token": v.TokenParameters("end_cursor"),
	} {
		require.NotEmpty(t, names, what)
	}
	for _, meaning := range []string{ParamPage, ParamOffset, ParamSince, ParamLater, ParamEarlier, ParamRecord, ParamChange, ParamToken, ParamLink, ParamSize} {
		require.NotEmpty(t, v.Parameters(meaning), meaning)
	}
}
