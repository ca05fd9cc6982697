package servers

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestDrawnNamesAreInVocabulary(t *testing.T) {
	v := schemas.Paging()
	for kind, meanings := range map[string][]string{
		"page": {schemas.ParamPage}, "offset": {schemas.ParamOffset}, "token": {schemas.ParamToken}, "keyset": {schemas.ParamSince, schemas.ParamToken}, "size": {schemas.ParamSize}, "moment": {schemas.ParamLater},
	} {
		require.NotEmpty(t, v.Sandbox[kind], kind)
		for _, name := range v.Sandbox[kind] {
			require.True(t, slices.ContainsFunc(meanings, func(f string) bool { return slices.Contains(v.Parameters(f), name) }), "%s %s", kind, name)
		}
	}
	for kind, roles := range map[string][]schemas.Role{
		"total": {schemas.RoleTotal, schemas.RoleCount}, "pages": {schemas.RolePages}, "number": {schemas.RolePage}, "limit": {schemas.RoleSize},
		"count": {schemas.RoleCount, schemas.RoleHere, schemas.RoleSize}, "offset shown": {schemas.RoleOffset}, "remaining": {schemas.RoleRemaining}, "more": {schemas.RoleMore}, "last": {schemas.RoleLast},
		"next token": {schemas.RoleNext, schemas.RoleToken}, "next number": {schemas.RoleNext}, "next offset": {schemas.RoleNext}, "next url": {schemas.RoleNext},
	} {
		for _, name := range v.Sandbox[kind] {
			require.Contains(t, roles, v.Role(name), "%s %s", kind, name)
		}
	}
	for _, name := range v.Sandbox["beside"] {
		require.True(t, v.Beside.Has(name), name)
	}
	for _, name := range v.Sandbox["total header"] {
		require.Equal(t, schemas.RoleTotal, v.HeaderRole(name), name)
	}
	for _, kind := range []string{"next header", "page header", "more header"} {
		for _, name := range v.Sandbox[kind] {
			plain := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(name), "x-"), "pagination-")
			require.Contains(t, []schemas.Role{schemas.RoleNext, schemas.RoleToken, schemas.RoleMore}, v.Role(plain), name)
		}
	}
}
