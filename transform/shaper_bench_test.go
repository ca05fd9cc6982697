//go:build unix

package transform

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func BenchmarkJSONText(b *testing.B) {
	for name, rules := range map[string]schemas.Rules{"no rules": {}, "rules": {Masks: masks("password", "drop", "*_token", "drop")}} {
		b.Run(name, func(b *testing.B) {
			record := `{"id":1,"name":"Ann","settings":{"1":{"theme":"dark","langs":["de","en"],"limits":{"a":100,"b":2.5,"c":null}},"2":{"theme":"light","notes":"something longer that is copied"}}}`
			page := []byte("[" + strings.Repeat(record+",", 999) + record + "]")
			s := contactStream()
			s.Rules = rules
			m := NewMapper(s, testStamp, nil)
			defer m.Close()
			perRecord(b, [][]byte{page}, 1000, func(page []byte) {
				if err := appendAll(m, page); err != nil {
					b.Fatal(err)
				}
				if m.Rows() >= flushRows {
					batches, _ := m.Flush()
					mapped{batches: batches}.release()
				}
			})
		})
	}
}

func BenchmarkShaper(b *testing.B) {
	min := "500"
	for _, c := range []struct {
		name  string
		rules schemas.Rules
	}{
		{"no rules", schemas.Rules{}},
		{"rules for other columns", schemas.Rules{Masks: masks("password", "drop", "*_token", "drop", "*secret*", "drop", "iban", "hash")}},
		{"drop three", schemas.Rules{Masks: masks("phone", "drop", "note", "drop", "address__street", "drop")}},
		{"select five", schemas.Rules{Select: []string{"first_name", "balance", "created_at", "address__city", "tags"}}},
		{"rename one", schemas.Rules{Rename: map[string]string{"email": "mail"}}},
		{"round one", schemas.Rules{Masks: masks("score", "round")}},
		{"hmac of one", schemas.Rules{Masks: masks("email", "hmac"), MaskKey: "0123456789abcdef"}},
		{"hmac of one with repeated values", schemas.Rules{Masks: masks("last_name", "hmac"), MaskKey: "0123456789abcdef"}},
		{"hmac of the key", schemas.Rules{Masks: masks("id", "hmac"), MaskKey: "0123456789abcdef"}},
		{"filter half", schemas.Rules{Filter: []schemas.Condition{{Column: "score", Min: &min}}}},
		{"contract kept", schemas.Rules{Contract: schemas.Contract{Tables: schemas.Freeze, Columns: schemas.Freeze, Types: schemas.Freeze}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			pages := contacts(20, 1000)
			s := contactStream()
			s.Rules = c.rules
			m := NewMapper(s, testStamp, nil)
			defer m.Close()
			shaper, err := NewShaper(m, false)
			require.NoError(b, err)
			perRecord(b, pages, 1000, func(page []byte) {
				if err := appendAll(m, page); err != nil {
					b.Fatal(err)
				}
				if m.Rows() < flushRows {
					return
				}
				batches, _ := m.Flush()
				batches, _, err := shaper.Shape(batches)
				if err != nil {
					b.Fatal(err)
				}
				for _, t := range batches {
					t.Batch.Release()
				}
			})
		})
	}
}
