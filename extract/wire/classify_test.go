package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMessageClass(t *testing.T) {
	for message, want := range map[string]Class{
		"":                                  0,
		"something we have never seen":      0,
		"Account Module Not Active!":        NotEntitled,
		"CRM Module Not Found!":             NotEntitled,
		"Your Add-on Is Not Activated!":     NotEntitled,
		"Please upgrade your plan":          NotEntitled,
		"Your subscription has expired":     NotEntitled,
		"Permission denied":                 NotEntitled,
		"Permission Denied.":                NotEntitled,
		"This action is unauthorized.":      NotEntitled,
		"Invalid ability provided.":         NotEntitled,
		"Unauthenticated.":                  Auth,
		"Unauthorized":                      Auth,
		"Token has expired":                 Auth,
		"The token is invalid":              Auth,
		"Invalid API key":                   Auth,
		"Plan not found":                    Missing,
		"Lead Not Found":                    Missing,
		"Proposal Not Found!":               Missing,
		"No query results for model [X] 99": Missing,
		"Token not provided":                Auth,
		"Token could not be parsed":         Auth,
		"Authorization Token not found":     Auth,
		"Too Many Attempts.":                Throttled,
		"The name field is required.":       Invalid,
		"The token field is required.":      Invalid,
		"The selected module is invalid.":   Invalid,
		"limit must be <= 100":              Invalid,
		"Something went wrong":              Transient,
		"something went wrong!!!":           Transient,
		"Service Unavailable":               Transient,
		"Please Employee First Clock Out.":  0,
	} {
		require.Equal(t, want.String(), MessageClass(message).String(), "%q", message)
	}
}

func TestErrorMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"message":"Unauthenticated."}`:                                       "Unauthenticated.",
		`{"success":false,"message":"error","errors":"Permission denied"}`:     "Permission denied",
		`{"success":false,"message":"Lead Not Found","errors":404}`:            "Lead Not Found",
		`{"message":"Validation error","errors":{"b":["B."],"a":["A.","C."]}}`: "A.",
		`{"message":"Validation error","errors":null}`:                         "Validation error",
		`{"error":{"code":"rate_limited","message":"Too many","param":null}}`:  "Too many",
		`{"error":"Proposal Not Found!"}`:                                      "Proposal Not Found!",
		`{"code":"invalid_request","message":"limit must be <= 100"}`:          "limit must be <= 100",
		`{"message":{"deal":{"name":{"deep":"x"}}}}`:                           "",
		`{"errors":[{"detail":"bad"}]}`:                                        "bad",
		`{"message":`:                                                          "", `[]`: "", ``: "", `null`: "", `"x"`: "",
	} {
		require.Equal(t, want, ErrorMessage([]byte(body)), body)
	}
}
