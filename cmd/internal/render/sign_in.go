package render

import (
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// SignIn describes a stored sign-in in one line.
func SignIn(st wire.CredentialState) string {
	switch {
	case st.Trouble != "" && st.SignedIn.IsZero() && st.Redirect != "":
		return st.Trouble + "; the redirect address to register with the server is " + st.Redirect
	case st.Trouble != "":
		return st.Trouble
	case st.SignedIn.IsZero():
		return "not signed in yet; the first read signs in"
	}
	text := "signed in since " + st.SignedIn.Local().Format(time.DateTime)
	if !st.Expires.IsZero() {
		text += ", this token expires " + st.Expires.Local().Format(time.DateTime)
	}
	if st.NoRefresh {
		text += ", without a refresh token, so you must sign in again then"
	}
	if !st.Failing.IsZero() {
		text += ", renewals have failed since " + st.Failing.Local().Format(time.DateTime)
	}
	if len(st.MissingScopes) > 0 {
		text += ", not granted: " + strings.Join(st.MissingScopes, " ")
	}
	return text
}
