package mysql

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTranslate(t *testing.T) {
	for from, want := range map[string]string{
		"SELECT 'FROM \"a \"' FROM `d`.`x` AS t WHERE \"a \" = 1": "SELECT 'FROM \"a \"' FROM `d`.`x` AS t WHERE \"a\ue000\ue820\" = 1",
		"DELETE FROM `d`.`x` AS t WHERE t.a IN (SELECT b FROM c)": "DELETE t FROM `d`.`x` AS t WHERE t.a IN (SELECT b FROM c)",
		"DELETE FROM `d`.`x`":                       "DELETE FROM `d`.`x`",
		"UPDATE `d`.`x` AS t SET \"a\" = 1 WHERE b": "UPDATE `d`.`x` AS t SET \"a\" = 1 WHERE b",
		"UPDATE `d`.`x` AS t SET a = ' FROM ', \"b, c\" = greatest(1, 2) FROM (SELECT 1 FROM y WHERE 1) AS s WHERE s.a = 1": "UPDATE `d`.`x` AS t, (SELECT 1 FROM y WHERE 1) AS s SET t.a = ' FROM ', t.\"b, c\" = greatest(1, 2) WHERE s.a = 1",
	} {
		got, _ := translate(from)
		require.Equal(t, want, got)
	}
	_, tables := translate("SELECT '`a`.`b`' FROM `d`.`x``y` AS t JOIN `d`.`z` AS s ON t.\"`q`.`r`\" = s.a")
	require.Equal(t, []string{"x`y", "z"}, tables)
}

func TestEscape(t *testing.T) {
	for _, name := range []string{"", "a", "a ", " ", "a b", "\t", "🦊", "a🦊 ", "\ue000", "\ue07e\ue98a", "größe", "名前"} {
		stored := escape(name)
		require.Equal(t, name, unescape(stored), "%q", stored)
		for _, r := range stored {
			require.Less(t, r, rune(0x10000))
		}
		require.NotRegexp(t, `\s$`, stored)
	}
}

func TestReadOnly(t *testing.T) {
	d, err := Open(Options{URL: "mysql://root@127.0.0.1:1/x"})
	require.NoError(t, err)
	defer d.Close()
	for _, q := range []string{
		"DELETE FROM a", "SELECT 1; DELETE FROM a", "SELECT 1 INTO OUTFILE '/tmp/x'", "SELECT 1 --\x0b'\n INTO OUTFILE '/tmp/x' -- '", "SELECT 1 /*!INTO OUTFILE '/tmp/x'*/", "SELECT 1 /*M! INTO @a */",
		"SELECT LOAD_FILE('/etc/passwd')", "SELECT load_file /* */ ('/etc/passwd')", "SELECT `load_file`('/etc/passwd')", "SELECT BENCHMARK(1000000000, sha2('x', 512))", "SELECT 1+sleep(9)", "SELECT GET_LOCK('a', 9)",
		"SELECT 1 -- \n INTO @a", "-- \nUPDATE a SET b = 1", "SET @a = 1", "CALL x()", "", ";",
	} {
		require.ErrorIs(t, d.Query(t.Context(), q, nil), ErrNotReadOnly, q)
	}
}

func TestURL(t *testing.T) {
	for _, url := range []string{"mysql://h", "mysql://u:p%zz@h/d", "mysql://u:secret@h/d?x=1", "mysql://u:secret@h/d?tls=maybe"} {
		_, err := Open(Options{URL: url})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "secret")
	}
}
