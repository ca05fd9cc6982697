package commandline

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/state/plainerror"
)

// UsageError returns the error for a command line that cobra cannot parse, in words for users. The argument cmd is the
// command that the user has called.
func UsageError(cmd *cobra.Command, err error) error {
	// Cause: an argument or flag is wrong
	hint := fmt.Sprintf("`%s --help` lists the arguments and flags", cmd.CommandPath())
	if cmd.HasSubCommands() {
		// Cause: the command does not exist
		hint = fmt.Sprintf("`%s --help` lists the commands and flags", cmd.CommandPath())
	}
	return failure.Usage(hint, "%s", usage(cmd, err))
}

// usage returns what is wrong with a command line.
func usage(cmd *cobra.Command, err error) string {
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return invalidValue(e)
	}
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, e)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Sprintf("--%s needs a value", e.GetFlag().Name)
	}
	if text := arguments(cmd, err.Error()); text != "" {
		return text
	}
	return plainerror.Text(err.Error())
}

// wanted says what the value of a flag must be, by the type of the flag.
var wanted = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint": "a whole number from 0", "float64": "a number",
	"duration": "a duration, such as 30s, 5m or 2h", "bool": "true or false",
}

func invalidValue(e *pflag.InvalidValueError) string {
	flag := e.GetFlag()
	want, known := wanted[flag.Value.Type()]
	if !known {
		return fmt.Sprintf("--%s %q: %s", flag.Name, e.GetValue(), plainerror.Text(e.Unwrap().Error()))
	}
	return fmt.Sprintf("--%s %q: want %s", flag.Name, e.GetValue(), want)
}

func unknownFlag(cmd *cobra.Command, e *pflag.NotExistError) string {
	name := e.GetSpecifiedName()
	if e.GetSpecifiedShortnames() != "" {
		return fmt.Sprintf("unknown flag -%s", name)
	}
	if i := strings.IndexAny(name, " \t\n"); i >= 0 {
		first := name[:i]
		switch {
		case i > 0 && cmd.Flags().Lookup(first) != nil: // such as a quoted variable of a shell
			return fmt.Sprintf("--%s and its value are one argument; write them as two arguments, or as --%[1]s=VALUE", first)
		case i == 0 || strings.Contains(strings.TrimSpace(name), "\n"): // such as a statement of SQL that begins with a comment
			return "an argument that begins with - is read as a flag; write -- before it"
		}
		name = first
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, "--"+f.Name)
		}
	})
	return fmt.Sprintf("unknown flag --%s%s", name, config.DidYouMean("--"+name, known))
}

// The messages of cobra about the number of arguments.
var (
	wrongNumber = regexp.MustCompile(`^(?:accepts|requires) (at most |at least )?(?:between \d+ and )?(\d+) arg\(s\), (?:received|only received) (\d+)$`)
	unknownWord = regexp.MustCompile(`^unknown command ("(?:[^"\\]|\\.)*") for "`)
)

// arguments returns the words for a wrong number of arguments; "" for any other message.
func arguments(cmd *cobra.Command, message string) string {
	if m := unknownWord.FindStringSubmatch(message); m != nil {
		if cmd.HasSubCommands() {
			return fmt.Sprintf("`%s` has no command %s", cmd.CommandPath(), m[1])
		}
		return fmt.Sprintf("`%s` takes no arguments, but got %s", cmd.CommandPath(), m[1])
	}
	m := wrongNumber.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	noun := "arguments"
	if m[2] == "1" {
		noun = "argument"
	}
	return fmt.Sprintf("`%s` takes %s%s %s, but got %s: want `%s`", cmd.CommandPath(), m[1], m[2], noun, m[3], cmd.UseLine())
}
