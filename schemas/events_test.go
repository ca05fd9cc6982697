package schemas

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEventsNameReadableStreams(t *testing.T) {
	events, err := LoadEvents()
	require.NoError(t, err)
	catalogue, err := Load()
	require.NoError(t, err)
	for word, of := range events.words {
		for _, s := range of {
			stream, ok := catalogue.Find(s.Name)
			require.True(t, ok && stream.Readable(), "%s: no stream %s", word, s.Name)
			require.Equal(t, s.ID == EventNumber, stream.Surface != SurfaceV2, "%s: ids of %s", word, s.Name)
		}
	}
}

func TestEventsOf(t *testing.T) {
	events, err := LoadEvents()
	require.NoError(t, err)
	names := func(eventType string) string {
		var all []string
		for _, s := range events.Of(eventType) {
			all = append(all, s.Name)
		}
		return strings.Join(all, " ")
	}
	for eventType, want := range map[string]string{
		"contact.created":              "v2.contacts",
		"Contact.Updated":              "v2.contacts",
		"contact.tag.added":            "v2.contacts",
		"invoice.paid":                 "sales.invoices v2.invoices",
		"sales_invoice.updated":        "sales.invoices",
		"crm.lead.stage_changed":       "crm.lead_board crm.leads",
		"lead_stage.created":           "crm.lead_stages",
		"lead_created":                 "crm.lead_board crm.leads",
		"contactless.created":          "",
		"":                             "",
		".":                            "",
		"../../x":                      "",
		strings.Repeat("contact.", 40): "",
	} {
		require.Equal(t, want, names(eventType), "Of(%q)", eventType)
	}
	require.True(t, events.Gone("contact.deleted"))
	require.True(t, events.Gone("contact_Deleted"))
	require.True(t, events.Gone("lead.force_deleted"))
	require.False(t, events.Gone("deleted.updated"))
	require.False(t, events.Gone(""))
}

func TestEventStreamFits(t *testing.T) {
	number, text := EventStream{ID: EventNumber}, EventStream{ID: "con_"}
	for id, want := range map[string][2]bool{
		`7`: {true, false}, `"con_1"`: {false, true}, `"7"`: {false, false}, `-1`: {false, false},
		`1.5`: {false, false}, `null`: {false, false}, ``: {false, false}, `"inv_1"`: {false, false},
	} {
		require.Equal(t, want, [2]bool{number.Fits(id), text.Fits(id)}, "Fits(%s)", id)
	}
}
