//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// explains matches the start of an EXPLAIN statement, with or without ANALYZE and options. Comments may be between
// the words.
var explains = regexp.MustCompile(`(?is)^` + blank + `EXPLAIN\b(?:` + blank + `(ANALYZE)\b)?(?:` + blank + `(\(` + option + `(?:,` + option + `)*\)))?(.*)$`)

const option = `\s*(?:ANALYZE|FORMAT\s+\w+)\s*`

const blank = `(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*`

// tableFunctions are the table functions that a query may call. All others read files or memory, change settings,
// write, or even end the process.
var tableFunctions = strings.Fields(`
	duckdb_approx_database_count duckdb_columns duckdb_constraints duckdb_databases duckdb_dependencies duckdb_extensions duckdb_functions duckdb_indexes
	duckdb_keywords duckdb_memory duckdb_optimizers duckdb_schemas duckdb_sequences duckdb_settings duckdb_table_sample duckdb_tables duckdb_types duckdb_variables
	duckdb_views generate_series histogram histogram_values icu_calendar_names json_each json_tree pg_timezone_names pragma_collations pragma_database_size
	pragma_metadata_info pragma_platform pragma_show pragma_storage_info pragma_table_info pragma_user_agent pragma_version query_table range repeat repeat_row
	summary unnest`)

// pragma matches the start of a PRAGMA statement.
var pragma = regexp.MustCompile(`(?i)^\s*PRAGMA\b`)

// forbidden are the scalar functions that a query may not call. These functions read files, write to the engine's log,
// or run a statement that is given as an argument.
var forbidden = []string{"read_blob", "read_text", "write_log", "json_execute_serialized_sql"}

// checkStatement checks a statement and returns it in the form to run. The engine parses the statement. The statement
// must be one SELECT, or EXPLAIN of one, and must call no function with side effects. Otherwise checkStatement returns
// [ErrNotReadOnly] (wrapped).
func (s *session) checkStatement(ctx context.Context, sql string) (string, error) {
	prefix := ""
	if m := explains.FindStringSubmatch(sql); m != nil {
		prefix = strings.Join(slices.DeleteFunc([]string{"EXPLAIN", strings.ToUpper(m[1]), m[2]}, func(word string) bool { return word == "" }), " ") + " "
		sql = m[3]
	}
	var tree map[string]any
	err := s.Query(ctx, "SELECT json_serialize_sql("+literal(sql)+")", func(v []driver.Value) error {
		tree, _ = v[0].(map[string]any)
		return nil
	})
	switch statements, _ := tree["statements"].([]any); {
	case err != nil:
		return "", err
	case tree["error_type"] == "not implemented":
		if pragma.MatchString(sql) {
			return "", fmt.Errorf("%w: for PRAGMA table_info('t') write FROM pragma_table_info('t')", ErrNotReadOnly)
		}
		return "", ErrNotReadOnly
	case tree["error"] == true:
		return "", s.parseError(prefix + sql)
	case len(statements) != 1:
		return "", fmt.Errorf("%w: %d statements, want one", ErrNotReadOnly, len(statements))
	}
	name := forbiddenCall(tree, tableFunctions)
	if name != "" { // name may be a user's macro; macros are listed only in this case, because that takes tens of milliseconds
		macros, err := s.macros(ctx)
		if err != nil {
			return "", err
		}
		name = forbiddenCall(tree, slices.Concat(tableFunctions, macros))
	}
	if name != "" {
		return "", fmt.Errorf("%w: it calls %s", ErrNotReadOnly, name)
	}
	return prefix + sql, nil
}

// parseError returns the engine's error for a statement that it cannot parse.
func (s *session) parseError(sql string) error {
	stmt, err := s.conn.Prepare(sql)
	if err != nil {
		return err
	}
	return errors.Join(ErrNotReadOnly, stmt.Close())
}

// macros returns the names of the table macros that users have created in the file.
func (s *session) macros(ctx context.Context) (names []string, err error) {
	err = s.Query(ctx, "SELECT DISTINCT lower(function_name) FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal", func(v []driver.Value) error {
		name, _ := v[0].(string)
		names = append(names, name)
		return nil
	})
	return names, err
}

// forbiddenCall returns the first function in a statement's tree that a query may not call: a function in the list
// `forbidden`, or a table function that is not in the list `tableFunctions`. It returns "" if there is none.
func forbiddenCall(node any, tableFunctions []string) string {
	switch n := node.(type) {
	case []any:
		for _, e := range n {
			if name := forbiddenCall(e, tableFunctions); name != "" {
				return name
			}
		}
	case map[string]any:
		if call, ok := n["function"].(map[string]any); ok && n["type"] == "TABLE_FUNCTION" {
			if name := fmt.Sprint(call["function_name"]); !slices.Contains(tableFunctions, strings.ToLower(name)) {
				return name
			}
		}
		if name, ok := n["function_name"].(string); ok && slices.Contains(forbidden, strings.ToLower(name)) {
			return name
		}
		for _, e := range n {
			if name := forbiddenCall(e, tableFunctions); name != "" {
				return name
			}
		}
	}
	return ""
}
