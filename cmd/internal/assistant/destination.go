package assistant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// flags replaces the flags of the command line in a hint by the arguments of tools.
var flags = strings.NewReplacer("--source NAME, or --to ", "the argument destination: ", "--to", "the argument destination", "`penstock docs`", "list_tables", "`penstock streams`", "status")

// answerable returns an error whose text says what went wrong and what the assistant can do. It contains no secret.
// Invariant 5
func (a *Assistant) answerable(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	text, hint := a.Browser.Explain(ctx, err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		text = fmt.Sprintf("stopped after %s", a.Time)
	}
	hint = flags.Replace(hint)
	if hint != "" {
		text += "\nhint: " + hint
	}
	return errors.New(text)
}

// cut returns the first items of a list, and says how many were left out.
func cut[T any](all []T, most int, narrow string) ([]T, string) {
	if len(all) <= most {
		return slices.Clip(all), ""
	}
	return all[:most:most], fmt.Sprintf("only the first %d of %d are shown; %s", most, len(all), narrow)
}
