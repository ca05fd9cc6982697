package schemas

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVocabulary(t *testing.T) {
	v := Paging()
	for name, want := range map[string]Role{
		"total_count": RoleTotal, "@odata.nextLink": RoleNext, "hydra:totalItems": RoleTotal, "NextMarker": RoleNext, "hasMore": RoleMore,
		"IsTruncated": RoleMore, "is_last": RoleLast, "timed_out": RolePartial, "prevCursor": RoleOther, "colour": "",
	} {
		require.Equal(t, want, v.Role(name), name)
	}
	require.Equal(t, RoleTotal, v.HeaderRole("X-Total-Count"))
	require.True(t, v.Parameter(ParamSize, "PageSize"))
	require.Equal(t, []string{"continuation_token", "continuationToken"}, v.Spellings(ParamToken, "x-ms-continuationtoken"[5:]))
}

func TestVocabularyRefusesTwoRoles(t *testing.T) {
	_, err := parseVocabulary([]byte("roles: {total: [found], count: [Found]}"))
	require.Error(t, err)
	require.Regexp(t, `"[Ff]ound" has the roles`, err.Error())
}
