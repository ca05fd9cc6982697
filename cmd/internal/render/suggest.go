package render

import (
	"regexp"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// suggested matches the beginning of a suggested command that reads the configuration. The names of programs that go on
// running, such as penstock serve, are left out: messages often only speak of them.
var suggested = regexp.MustCompile(`\bpenstock (backfill|check|discover|docs|explain|import|login|logout|maintain|migrate|path|plan|preview|query|rejects|runs|schema|sources|state|status|streams|sync|verify|views|webhooks)\b`)

// Suggest adds the configuration file to the commands in a text, so that they can be copied. If file is "" or the file
// that is read without -c, the text stays as it is.
func Suggest(text, file string) string {
	if file == "" || file == config.DefaultFile {
		return text
	}
	return suggested.ReplaceAllString(text, "penstock -c "+strings.ReplaceAll(ShellWord(file), "$", "$$")+" $1")
}

// ShellWord quotes text as one word of a shell.
func ShellWord(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == "" && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
