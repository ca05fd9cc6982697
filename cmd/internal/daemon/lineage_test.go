package daemon

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/serve/signal"
)

func TestLineagePlace(t *testing.T) {
	for shown, want := range map[string]signal.LineagePlace{
		"postgres://db.example.com:5432/x": {Namespace: "postgres://db.example.com:5432", Prefix: "x.platform."},
		"duckdb:data/warehouse.duckdb":     {Namespace: "duckdb", Prefix: "data/warehouse.duckdb/"},
		"parquet:/lake/":                   {Namespace: "parquet", Prefix: "/lake/"},
	} {
		scheme, _, _ := strings.Cut(shown, ":")
		require.Equal(t, want, lineagePlace(config.Destination{Scheme: scheme, Shown: shown, Schema: "platform"}), shown)
	}
}
