package render

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
)

func TestFound(t *testing.T) {
	t.Parallel()
	lines := Found(forecast.Forecast{}, []string{"crm.leads", "hr.payslips"}, 1, errors.New("no route"))
	require.Equal(t, `hint: give them the rights, or leave these streams out: streams: ["*", "!crm.leads", "!hr.payslips"]`, lines[2])
	require.Equal(t, "could not look at 1 list, for example: no route", lines[3])
	var many []string
	for i := range 8 {
		many = append(many, fmt.Sprintf("a.b%d", i))
	}
	lines = Found(forecast.Forecast{}, many, 1, nil)
	require.Contains(t, lines[2], `"!a.b5"], and 2 more in the same way`)
	require.Equal(t, "could not look at 1 list", lines[3])
}
