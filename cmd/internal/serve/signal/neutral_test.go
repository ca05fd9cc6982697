package signal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNeutral(t *testing.T) {
	for text, want := range map[string]string{
		"401: <!channel> @everyone <@U024BE7LH>": "401: ‹!channel› ＠everyone ‹＠U024BE7LH›",
		"[reset](https://evil.example/x)":        "[reset] (https(:)//evil.example/x)",
		"<https://evil.com|sign in>":             "‹https(:)//evil(.)com¦sign in›",
		"see evil.com/login now":                 "see evil(.)com/login now",
		"see EVIL.co.uk":                         "see EVIL(.)co(.)uk",
		"www.evil.internal":                      "www(.)evil(.)internal",
		"evil.com.crm":                           "evil(.)com(.)crm",
		"еvil.рф":                                "еvil(.)рф",
		"evil。com":                               "evil(.)com",
		"mail bob@evil.com":                      "mail bob＠evil(.)com",
		"**bold** ~gone~ `code`":                 "∗∗bold∗∗ ∼gone∼ 'code'",
		"a\u202egpj.exe\x1b]0;x\x07\u200b":       "agpj.exe]0;x",
		"one\r\ntwo\tthree":                      "one \ntwo three",
		// Unchanged:
		"get /v2/contacts page 17: 500 internal server error": "get /v2/contacts page 17: 500 internal server error",
		"commit crm.leads: disk full":                         "commit crm.leads: disk full",
		"amount 12.50 of sales.invoices, file lead.json":      "amount 12.50 of sales.invoices, file lead.json",
		"naïve café: 3 # 4 & 5":                               "naïve café: 3 # 4 & 5",
	} {
		require.Equal(t, want, neutral(text), text)
	}
}

func TestAlertsAreNeutral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, t.TempDir()+"/alerts.json", nightlyRouting)
		defer d.stop()
		d.Observe(fails("get /v2/contacts: 401: <!channel> your key is void, renew it at https://evil.com/login"))
		sent := d.after(time.Minute)
		require.Len(t, sent, 1)
		require.Contains(t, sent[0], "crm.leads in warehouse: get /v2/contacts: 401: ‹!channel› your key is void, renew it at https(:)//evil(.)com/login")
	})
}
