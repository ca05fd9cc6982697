package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres/codec"
)

// readsOnly matches the beginning of a statement that may be read-only. [prepareShown] later uses the server's parser
// to find out whether the statement really only reads.
var readsOnly = regexp.MustCompile(`(?is)^(?:\s|\(|` + comment + `)*(?:SELECT|WITH|VALUES|TABLE)\b`)

// shows matches a SHOW statement as a whole. SHOW calls no functions.
var shows = regexp.MustCompile(`(?i)^\s*SHOW(?:\s+[\w".]+)+\s*;?\s*$`)

// explains matches the beginning of an EXPLAIN statement.
var explains = regexp.MustCompile(`(?is)^` + blanks + `EXPLAIN\b((?:` + blanks + `(?:ANALYZE|VERBOSE)\b)*)(?:` + blanks + `(\(` + option + `(?:,` + option + `)*\)))?(.*)$`)

const (
	comment = `--[^\n]*(?:\n|$)|/\*.*?\*/`
	blanks  = `(?:\s|` + comment + `)*`
	option  = `\s*(?:ANALYZE|VERBOSE|COSTS|SETTINGS|BUFFERS|SERIALIZE|WAL|TIMING|SUMMARY|MEMORY|FORMAT)(?:\s+\w+)?\s*`
)

// readQuery is a query, split into EXPLAIN and the statement that it explains.
type readQuery struct {
	explain string // EXPLAIN with its options; "" if there is no EXPLAIN
	sql     string // statement without EXPLAIN
	shows   bool   // the statement is SHOW
}

// errElsewhere is [ErrNotReadOnly] with a hint.
var errElsewhere = fmt.Errorf("%w; use psql for anything else", ErrNotReadOnly)

func parseQuery(sql string) (readQuery, error) {
	if !codec.Storable([]byte(sql)) { // the server would close the connection otherwise
		return readQuery{}, errors.New("the statement contains a zero byte or invalid UTF-8")
	}
	if shows.MatchString(sql) {
		return readQuery{sql: sql, shows: true}, nil
	}
	q := readQuery{sql: sql}
	if m := explains.FindStringSubmatch(sql); m != nil {
		q.explain, q.sql = strings.Join([]string{"EXPLAIN", comments.ReplaceAllString(m[1], " "), m[2], ""}, " "), m[3]
	}
	if !readsOnly.MatchString(q.sql) {
		return q, errElsewhere
	}
	return q, nil
}

var comments = regexp.MustCompile(`(?s)` + comment)

// run runs a query and passes on its result.
func (q readQuery) run(ctx context.Context, s *session, schema string, visit func(arrow.RecordBatch) error) error {
	defer deallocateQuery(s)
	if at, ok := ctx.Deadline(); ok { // the server stops the statement, even if it does not get the request to cancel it
		if err := s.run(ctx, "SET LOCAL statement_timeout = "+literal(millis(time.Until(at)+timeoutMargin))); err != nil {
			return err
		}
	}
	stmt, name, err := q.prepare(ctx, s, schema)
	if err != nil {
		return err
	}
	if len(stmt.ParamOIDs) > 0 {
		return errors.New("statements with parameters are not supported")
	}
	s.pg.Frontend().SetMaxBodyLen(load.MostRow) // Invariant 6
	defer s.pg.Frontend().SetMaxBodyLen(mostMessage)
	err = s.answer(ctx, stmt, name, visit)
	if _, tooLarge := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); tooLarge {
		return load.ErrTooLarge
	}
	return err
}

// mostMessage is the greatest size of a message outside of a query. No server sends more.
const mostMessage = 1<<30 - 2

// timeoutMargin is the time between the end of a query's context and the end of its statement by the server. In this
// time, the client cancels the statement, with a clearer error.
const timeoutMargin = 2 * time.Second

// queryName is the name of the prepared query.
const queryName = "penstock_query"

// prepare() prepares a query. Other roles may have created functions and operators in the destination's schema with the
// names of built-in ones. If a query called such a function, the function would run with the rights of penstock's role.
// To prevent that, the server first parses the query, penstock checks which functions it calls, and then the server
// runs the parsed query. So no other role can change the meaning of a name between the check and the run.
//
// A pooler may rename a prepared statement. If an earlier client has prepared a statement with the same text, the
// pooler may use that statement and not parse the text again. So prepare adds a random comment, which makes the text
// unique.
func (q readQuery) prepare(ctx context.Context, s *session, schema string) (_ *pgconn.StatementDescription, name string, err error) {
	const plain = "SET LOCAL search_path = pg_catalog, pg_temp"
	names := "SET LOCAL search_path = pg_catalog, " + ident(schema) + ", pg_temp"
	if err := s.run(ctx, plain); err != nil {
		return nil, "", err
	}
	if err := checkTypes(ctx, s, schema, q.sql); err != nil {
		return nil, "", err
	}
	if err := s.run(ctx, names); err != nil {
		return nil, "", err
	}
	if q.shows {
		stmt, err := s.pg.Prepare(ctx, "", q.sql, nil)
		return stmt, "", cause(ctx, err)
	}
	mark := "/* " + rand.Text() + " */ "
	stmt, tree, err := prepareShown(ctx, s, queryName, mark+q.sql)
	if err != nil {
		return nil, "", err
	}
	if err := s.run(ctx, plain); err != nil {
		return nil, "", err
	}
	if err := checkCalls(ctx, s, schema, tree); err != nil {
		return nil, "", err
	}
	if err := s.run(ctx, names); err != nil || q.explain == "" {
		return stmt, queryName, err
	}
	known, err := s.strings(ctx, "SELECT name FROM pg_catalog.pg_prepared_statements WHERE pg_catalog.starts_with(statement, "+literal(mark)+")")
	if err != nil || len(known) != 1 {
		return nil, "", cmp.Or(err, errors.New("the server does not have the prepared statement"))
	}
	stmt, err = s.pg.Prepare(ctx, "", q.explain+"EXECUTE "+ident(known[0]), nil)
	return stmt, "", cause(ctx, err)
}

// checkedSQL selects the arrays, records and ranges that contain a domain with a check. It also selects the names by
// which a statement can use such a type: its own name, the names of its element types, and the names of functions and
// operators with a parameter or result of the type.
const checkedSQL = `WITH RECURSIVE checked(oid) AS (
		SELECT y.oid FROM pg_type y WHERE typtype = 'd' AND y.oid >= 16384 AND EXISTS (SELECT FROM pg_constraint WHERE contypid = y.oid)
		UNION SELECT whole.oid FROM checked, LATERAL (SELECT oid FROM pg_type WHERE typbasetype = checked.oid OR typelem = checked.oid
			UNION ALL SELECT rngtypid FROM pg_range WHERE rngsubtype = checked.oid
			UNION ALL SELECT (to_jsonb(g)->>'rngmultitypid')::oid FROM pg_range g WHERE rngtypid = checked.oid
			UNION ALL SELECT c.reltype FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE a.atttypid = checked.oid AND a.attnum > 0) whole WHERE whole.oid <> 0),
	y AS (SELECT oid, typname, typelem FROM pg_type WHERE oid IN (SELECT oid FROM checked) AND typtype <> 'd')
	SELECT oid, typname FROM y
	UNION SELECT y.oid, e.typname FROM y JOIN pg_type e ON e.oid = y.typelem
	UNION SELECT y.oid, proname FROM y JOIN pg_proc ON y.oid = prorettype OR y.oid = ANY (proargtypes) OR y.oid = ANY (proallargtypes)
	UNION SELECT y.oid, oprname FROM y JOIN pg_operator ON y.oid IN (oprleft, oprright, oprresult)`

// checkTypes returns an error if it is not safe to let the server parse the statement. While the server parses, it
// converts literals to their types. If the type is an array, record or range that contains a domain, the conversion
// runs the checks of the domain. If the statement contains a name that checkedSQL has found, checkTypes examines the
// functions that these checks call. If one of them is forbidden, the statement is refused.
func checkTypes(ctx context.Context, s *session, schema, sql string) error {
	text, types := strings.ToLower(strings.ReplaceAll(sql, `""`, `"`)), ""
	err := s.query(ctx, checkedSQL, func(v [][]byte) error {
		if strings.Contains(text, strings.ToLower(strings.ReplaceAll(string(v[1]), `""`, `"`))) || strings.Contains(text, `u&"`) {
			types += ":typid " + string(v[0]) + " "
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check the types of the statement: %w", err)
	}
	if types == "" {
		return nil
	}
	return checkCalls(ctx, s, schema, types)
}

// noticed is a key in the custom data of a connection. While the server sends a parse tree, the data under this key is
// the [strings.Builder] that collects the tree.
const noticed = "penstock.tree"

// notice collects the parse tree, which the server sends as a notice. The server breaks the tree into lines at
// spaces.
func notice(pg *pgconn.PgConn, n *pgconn.Notice) {
	if tree, ok := pg.CustomData()[noticed].(*strings.Builder); ok && strings.HasPrefix(n.Message, "rewritten parse tree") {
		tree.WriteString(strings.ReplaceAll(n.Detail, "\n", " "))
	}
}

// showTrees returns SQL that makes the server send the parse tree of the next statement. The server also writes the
// tree to its log, unless penstock's role has the right to set log_min_messages. Superusers have this right, and since
// Postgres 15 it can be granted to other roles.
func showTrees(version int) string {
	may := "pg_catalog.current_setting('is_superuser') = 'on'"
	if version >= 15 {
		may = "pg_catalog.has_parameter_privilege('log_min_messages', 'SET')"
	}
	return "SET LOCAL debug_pretty_print = off; SET LOCAL client_min_messages = log; " +
		"SELECT CASE WHEN " + may + " THEN pg_catalog.set_config('log_min_messages', 'fatal', true) END; SET LOCAL debug_print_rewritten = on"
}

// hideTrees is SQL that undoes the settings of showTrees.
const hideTrees = "SET LOCAL debug_print_rewritten = off; SET LOCAL client_min_messages = warning; SELECT pg_catalog.set_config('log_min_messages', reset_val, true) FROM pg_catalog.pg_settings WHERE name = 'log_min_messages' AND setting <> reset_val"

// major returns the major version of the server, or 0 if unknown.
func (s *session) major() int {
	text := s.pg.ParameterStatus("server_version")
	n, _ := strconv.Atoi(text[:len(text)-len(strings.TrimLeft(text, "0123456789"))])
	return n
}

// prepareShown prepares a SELECT and returns its parse tree. In the tree, views are replaced by their queries. The
// server sends the tree as a notice, because no other way to get the tree works in a read-only transaction and on a
// replica.
func prepareShown(ctx context.Context, s *session, name, sql string) (*pgconn.StatementDescription, string, error) {
	if err := s.run(ctx, showTrees(s.major())); err != nil {
		return nil, "", err
	}
	tree := &strings.Builder{}
	s.pg.CustomData()[noticed] = tree
	stmt, err := s.pg.Prepare(ctx, name, sql, nil)
	delete(s.pg.CustomData(), noticed)
	if err != nil {
		return nil, "", cause(ctx, err)
	}
	if err := s.run(ctx, hideTrees); err != nil {
		return nil, "", err
	}
	switch text := tree.String(); {
	case text == "":
		return nil, "", errors.New("the server does not return the statement's parse tree, which penstock needs to check the functions that the statement calls: run the statement with psql instead")
	case !strings.HasPrefix(strings.TrimLeft(text, "( \n"), "{QUERY :commandType 1 ") || strings.Contains(text, ":hasModifyingCTE true"):
		return nil, "", errElsewhere
	default:
		return stmt, text, nil
	}
}

// deallocateQuery deallocates the prepared query. If that fails, it closes the connection.
func deallocateQuery(s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if s.pg.IsClosed() {
		return
	}
	if err := s.pg.Deallocate(ctx, queryName); err != nil {
		_ = s.pg.Close(ctx)
	}
}

// references holds the OIDs of the objects to which a parse tree refers.
type references struct{ functions, operators, types, relations []string }

// reference matches those fields of a parse tree whose value is an OID or a list of OIDs. It cannot match a text in the
// tree, because the server writes a backslash before each space of a text.
var reference = regexp.MustCompile(`:(funcid|opfuncid|aggfnoid|winfnoid|tsmhandler|startInRangeFunc|endInRangeFunc|opno|opnos|eqop|sortop|relid|\w*types?|\w*type?[iI]d) (?:\(o ([\d ]+)\)|(\d+))`)

// add adds the references of a tree.
func (r *references) add(tree string) {
	for _, m := range reference.FindAllStringSubmatch(tree, -1) {
		numbers := strings.Fields(m[2] + m[3])
		switch m[1] {
		case "opno", "opnos", "eqop", "sortop":
			r.operators = append(r.operators, numbers...)
		case "relid":
			r.relations = append(r.relations, numbers...)
		case "funcid", "opfuncid", "aggfnoid", "winfnoid", "tsmhandler", "startInRangeFunc", "endInRangeFunc":
			r.functions = append(r.functions, numbers...)
		default: // OIDs of types; fields such as jointype match too, but their small numbers do no harm
			r.types = append(r.types, numbers...)
		}
	}
}

// oids formats OIDs as an SQL array, for a condition with = ANY.
func oids(numbers []string) string { return "'{" + strings.Join(numbers, ",") + "}'::oid[]" }

// expressionsSQL selects expressions that are not part of the query, but that the server evaluates for it. Some belong
// to the types of the query, or to parts of these types. Others belong to tables of other roles, or to partitions of
// such tables. The server evaluates the expressions of tables while it plans the query.
func (r *references) expressionsSQL() string {
	return `WITH RECURSIVE types(oid) AS (SELECT unnest(` + oids(r.types) + `) UNION SELECT part.oid FROM types JOIN pg_type y ON y.oid = types.oid, LATERAL (
			SELECT unnest(ARRAY[y.typbasetype, y.typelem]) AS oid
			UNION ALL SELECT rngsubtype FROM pg_range g WHERE rngtypid = y.oid OR to_jsonb(g)->>'rngmultitypid' = y.oid::text
			UNION ALL SELECT atttypid FROM pg_attribute WHERE attrelid = y.typrelid AND attnum > 0 AND NOT attisdropped) part WHERE part.oid <> 0),
		tables(oid) AS (SELECT unnest(` + oids(r.relations) + `) UNION SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid),
		t AS (SELECT oid FROM pg_class WHERE oid IN (SELECT oid FROM tables) AND NOT ` + trusted("relowner") + `)
		SELECT conbin::text FROM pg_constraint WHERE conbin IS NOT NULL AND (contypid IN (SELECT oid FROM types WHERE oid <> 0) OR conrelid IN (SELECT oid FROM t))
		UNION SELECT concat(indexprs::text, ' ', indpred::text) FROM pg_index WHERE indrelid IN (SELECT oid FROM t)
		UNION SELECT coalesce(to_jsonb(e)->>'stxexprs', '') FROM pg_statistic_ext e WHERE stxrelid IN (SELECT oid FROM t)
		UNION SELECT coalesce(partexprs::text, '') FROM pg_partitioned_table WHERE partrelid IN (SELECT oid FROM t)
		UNION SELECT concat(':funcid ', rngsubdiff::oid, ' :funcid ', rngcanonical::oid) FROM pg_range WHERE rngtypid IN (SELECT oid FROM types)`
}

// maxNested limits how deeply expressions may refer to other expressions. For example, the check of a domain may use
// a type that has a check of its own.
const maxNested = 16

// addExpressions adds the objects to which the expressions of expressionsSQL refer. Such an object can have expressions
// too, so addExpressions repeats the search until it finds no new objects.
func (r *references) addExpressions(ctx context.Context, s *session) error {
	known := map[string]bool{}
	for range maxNested {
		trees, err := s.strings(ctx, r.expressionsSQL())
		if err != nil {
			return fmt.Errorf("check what the statement calls: %w", err)
		}
		more := false
		for _, t := range trees {
			if !known[t] {
				known[t], more = true, true
				r.add(t)
			}
		}
		if !more {
			return nil
		}
	}
	return fmt.Errorf("%w: the checks of the statement's types are nested too deep", ErrNotReadOnly)
}

// checkCalls returns an error if a tree calls a function that a query must not call, or reads a table that a query must
// not read: see [references.forbiddenSQL] and [references.stateSQL].
func checkCalls(ctx context.Context, s *session, schema, tree string) error {
	var r references
	r.add(tree)
	if err := checkTables(ctx, s, r); err != nil {
		return err
	}
	if err := r.addExpressions(ctx, s); err != nil {
		return err
	}
	var refused error
	err := s.query(ctx, r.forbiddenSQL(schema), func(v [][]byte) error {
		name, owner, role, shadow := string(v[0]), string(v[1]), string(v[2]), string(v[4])
		switch {
		case string(v[3]) != "t":
			refused = fmt.Errorf("%w: it calls %s, which belongs to role %s and would act with the rights of role %s; change its owner to %[4]s (ALTER FUNCTION %[2]s OWNER TO %[4]s), or run the statement with psql",
				ErrNotReadOnly, name, owner, role)
		case shadow != "":
			refused = fmt.Errorf("%w: it calls %s, in which names may refer to %s of another role; set the function's search path (ALTER FUNCTION %[2]s SET search_path = pg_catalog, …), or drop the object that has the name of a built-in one",
				ErrNotReadOnly, name, shadow)
		default:
			refused = fmt.Errorf("%w: it calls %s, which has effects beyond the transaction; run it with psql", ErrNotReadOnly, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check what the statement calls: %w", err)
	}
	return refused
}

// forbiddenSQL selects the first function of r that a query must not call. These functions are forbidden:
//
//   - functions of roles that are not trusted.
//   - functions of Postgres or of an extension that have effects beyond the transaction. Functions that built-in views
//     use are allowed, because a query could also read these views.
//   - functions of a trusted role that use the session's search_path to find objects by name. They are forbidden only
//     if the schema contains a function or operator of another role that has the name of a built-in function or
//     operator. The last column of the result names this function or operator.
func (r *references) forbiddenSQL(schema string) string {
	return `WITH f AS (SELECT p.*, ` + trusted("p.proowner") + ` AS trusted,
			EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e') AS extension,
			p.oid >= 16384 AND p.probin IS NULL AND NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE starts_with(c, 'search_path=')) AS searches
			FROM pg_proc p WHERE (p.oid = ANY (` + oids(r.functions) + `) OR p.oid IN (SELECT oprcode::oid FROM pg_operator WHERE oid = ANY (` + oids(r.operators) + `))) AND has_function_privilege(p.oid, 'EXECUTE')),
		shadow AS (SELECT oid::regprocedure::text AS name FROM pg_proc p WHERE ` + inSchema("pronamespace", schema) + ` AND NOT ` + trusted("proowner") + `
				AND EXISTS (SELECT FROM pg_proc WHERE proname = p.proname AND pronamespace = 'pg_catalog'::regnamespace)
			UNION ALL SELECT oid::regoperator::text FROM pg_operator o WHERE ` + inSchema("oprnamespace", schema) + ` AND NOT ` + trusted("oprowner") + `
				AND EXISTS (SELECT FROM pg_operator WHERE oprname = o.oprname AND oprnamespace = 'pg_catalog'::regnamespace)),
		r AS (SELECT f.*, CASE WHEN f.trusted AND f.searches THEN (SELECT min(name) FROM shadow) END AS shadow FROM f)
		SELECT quote_ident(n.nspname) || '.' || quote_ident(r.proname) || '(' || pg_get_function_identity_arguments(r.oid) || ')', quote_ident(pg_get_userbyid(r.proowner)), quote_ident(current_user), r.trusted, r.shadow
		FROM r JOIN pg_namespace n ON n.oid = r.pronamespace
		WHERE CASE WHEN NOT r.trusted OR r.shadow IS NOT NULL THEN true
		WHEN r.oid >= 16384 AND NOT r.extension THEN false
		WHEN r.proname ~ ` + literal(dynamic) + ` THEN true
		WHEN r.provolatile <> 'v' OR r.proname ~ ` + literal(volatileOnly) + ` THEN false
		ELSE NOT EXISTS (SELECT FROM pg_rewrite v WHERE v.ev_class < 16384 AND v.ev_type = '1' AND strpos(v.ev_action::text, ':funcid ' || r.oid || ' ') > 0) END
		ORDER BY 4, 1 LIMIT 1`
}

// dynamic matches functions that are declared stable, but run statements that they get as arguments. The parse tree
// does not contain those statements.
const dynamic = `^(crosstab[0-9n]*|connectby|xpath_table|(table|schema|database)_to_xml(schema|_and_xmlschema)?)$`

// volatileOnly matches functions whose results vary, but that have no effects beyond the transaction.
const volatileOnly = `^(random(_normal)?|setseed|gen_random_(uuid|bytes)|gen_salt|uuid_generate_v[0-9a-z]+|uuidv[47]|pgp_(sym|pub)_encrypt(_bytea)?|` +
	`clock_timestamp|timeofday|statement_timestamp|pg_sleep(_for|_until)?|pg_(database|indexes|relation|table|tablespace|total_relation)_size|` +
	`nextval|currval|lastval|current_query|currtid2?|txid_(current|status|current_if_assigned|current_snapshot)|pg_(xact_status|current_xact_id|xact_commit_timestamp(_origin)?|last_committed_xact)|` +
	`pg_is_(in_recovery|wal_replay_paused)|pg_get_wal_replay_pause_state|pg_(current|last)_[a-z_]*(lsn|timestamp)|pg_control_[a-z]+|pg_jit_available|pg_(safe_snapshot_)?blocking_pids|` +
	`pg_partition_(ancestors|tree)|pg_notification_queue_usage|pg_(database_)?collation_actual_version|pg_stat_have_stats|pg_stat_get_[a-z_]+|` +
	`pg_stat_statements(_info)?|pgstat(tuple|tuple_approx|index|ginindex|hashindex)|pg_relpages|pg_buffercache_(pages|summary|usage_counts)|pg_freespace|pg_visibility(_map|_map_summary)?|` +
	`bernoulli|system|system_rows|system_time)$`
