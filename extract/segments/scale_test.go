package segments

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The places of keys in the usual forms have the same order as the keys. If a place is between the places of two keys,
// its key is between these two keys.
func TestScale(t *testing.T) {
	for name, keys := range map[string][]string{
		"numbers": {"8", "9", "10", "99", "1000", "123456789012345678"},
		"ObjectIds": {"507f1f77bcf86cd799439011", "507f1f77bcf86cd79943aaaa", "507f1f78bcf86cd799439011", "517f1f77bcf86cd799439011",
			"607f1f77bcf86cd799439011"},
		"UUIDs": {"0190163d-8694-739b-aea5-966c26f8ad91", "0190163d-8695-739b-aea5-966c26f8ad91", "0190163d-8695-739c-8ea5-966c26f8ad91",
			"0190163d-9695-739b-aea5-966c26f8ad91", "0290163d-8694-739b-aea5-966c26f8ad91"},
		"capitals": {"00000000000A00000000000000000000", "00000000000B00000000000000000000", "0A0000000000000000000000000000FF",
			"0B000000000000000000000000000000", "FF000000000000000000000000000000"},
		"ULIDs": {"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW", "01ARZ3NDEMTSV4RRFFQ69G5FAV", "01BRZ3NDEKTSV4RRFFQ69G5FAV",
			"01JRZ3NDEKTSV4RRFFQ69G5FAV"},
		"seconds": {"2026-11-21T10:00:00Z", "2026-11-21T10:00:01Z", "2026-11-21T11:00:00Z", "2026-11-22T10:00:00Z", "2027-11-21T10:00:00Z"},
		"parts of seconds": {"2026-11-21 10:00:00.001", "2026-11-21 10:00:00.002", "2026-11-21 11:00:00.001", "2026-11-22 10:00:00.001",
			"2027-11-21 10:00:00.001"},
	} {
		for _, falls := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " falls ", falls), func(t *testing.T) {
				keys := slices.Clone(keys)
				if falls {
					slices.Reverse(keys)
				}
				s := scaleOf(keys)
				require.NotNil(t, s)
				for i := range len(keys) - 1 {
					require.True(t, s.before(keys[i], keys[i+1]), "%s, %s", keys[i], keys[i+1])
					require.False(t, s.before(keys[i+1], keys[i]))
					x, ok := s.place(keys[i])
					require.True(t, ok)
					y, ok := s.place(keys[i+1])
					require.True(t, ok)
					require.LessOrEqual(t, x, y)
					key, ok := s.key(x + (y-x)/2)
					require.True(t, ok)
					if name != "numbers" {
						require.Len(t, key, len(keys[i]))
					}
					z, ok := s.place(key)
					require.True(t, ok, key)
					if y > x+1 {
						require.LessOrEqual(t, x, z)
						require.LessOrEqual(t, z, y)
					}
				}
				swapped := slices.Clone(keys)
				swapped[2], swapped[3] = swapped[3], swapped[2]
				require.Nil(t, scaleOf(swapped))
				same := slices.Clone(keys)
				same[2] = same[3]
				require.Nil(t, scaleOf(same))
			})
		}
	}
}

// No key is guessed if the keys of a list have no known form, or if they do not all have the same form.
func TestUnknownForms(t *testing.T) {
	for _, keys := range [][]string{
		{"1", "2", "3", "4"},
		{"", "1", "2", "3", "4"},
		{"1", "2", "", "4", "5"},
		{"1", "2", "3", "4", "x"},
		{"01", "02", "03", "04", "05"},
		{"-1", "0", "1", "2", "3"},
		{"cus_1", "cus_2", "cus_3", "cus_4", "cus_5"},
		{"2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24", "2026-11-25"},
		{"2026-11-21T10:00:00+01:00", "2026-11-21T10:00:01+01:00", "2026-11-21T10:00:02+01:00", "2026-11-21T10:00:03+01:00", "2026-11-21T10:00:04+01:00"},
		{"2026-11-21T10:00:00Z", "2026-11-21T10:00:00.5Z", "2026-11-21T10:00:01Z", "2026-11-21T10:00:02Z", "2026-11-21T10:00:03Z"},
		{"507f1f77bcf86cd799439011", "507f1f77bcf86cd799439012", "507f1f77bcf86cd79943901g", "507f1f77bcf86cd799439014", "507f1f77bcf86cd799439015"},
	} {
		require.Nil(t, scaleOf(keys), keys)
	}
}
