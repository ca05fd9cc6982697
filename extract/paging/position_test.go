package paging

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A stored position is used only if a pass can store its kind. Not every type of a pager is a kind of position: a
// position of since_id has the kind cursor.
func TestPositionIsValid(t *testing.T) {
	for at, want := range map[Position]bool{
		{}:                                       true,
		{Kind: KindPage, Param: "page", At: "2"}: true,
		{Kind: KindPage, Param: "page", At: "x"}: false,
		{Kind: KindOffset, Param: "offset", At: "100"}: true,
		{Kind: KindCursor, Param: "since_id", At: "7"}: true,
		{Kind: KindCursor, Param: "since_id"}:          false,
		{Kind: KindLink, At: "page=2"}:                 true,
		{Kind: KindRange, At: "items=0-9"}:             true,
		{Kind: "since_id", Param: "since_id", At: "7"}: false,
		{Kind: "token", Param: "token", At: "7"}:       false,
		{Kind: "none", Param: "page", At: "2"}:         false,
		{Param: "page"}:                                false,
	} {
		require.Equal(t, want, at.Valid(), "%+v", at)
	}
}
