package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWheel builds small programs for several platforms, and checks the files of their wheels.
func TestWheel(t *testing.T) {
	builds(t)
	dir := t.TempDir()
	commit(t, dir)
	for platform, tags := range map[string]string{
		"linux/amd64":   "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
		"linux/arm64":   "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
		"darwin/arm64":  `macosx_1\d_0_arm64`,
		"windows/amd64": "win_amd64",
	} {
		goos, arch, _ := strings.Cut(platform, "/")
		bin := filepath.Join(t.TempDir(), "program")
		build := exec.Command("go", "build", "-trimpath", "-o", bin, ".")
		build.Dir, build.Env = dir, append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
		text, err := build.CombinedOutput()
		require.NoError(t, err, string(text))
		out := t.TempDir()
		require.NoError(t, onlyWheel(testOptions(bin, out)))
		wheels, err := filepath.Glob(filepath.Join(out, "*"))
		require.NoError(t, err)
		require.Len(t, wheels, 1)
		require.Regexp(t, `^penstock-0\.0\.0\.dev[0-9]+(\+[0-9a-f]{12})?-py3-none-`+tags+`\.whl$`, filepath.Base(wheels[0]))
		checkWheel(t, wheels[0], bin, goos)
	}
}

// checkWheel checks the record of a wheel, and the files that installers read.
func checkWheel(t *testing.T, path, bin, goos string) {
	t.Helper()
	z, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer z.Close()
	files := map[string]string{}
	modes := map[string]fs.FileMode{}
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NotContains(t, files, f.Name)
		files[f.Name], modes[f.Name] = string(text), f.Mode()
		require.Less(t, f.Modified, time.Now())
	}
	name := strings.Join(strings.SplitN(filepath.Base(path), "-", 3)[:2], "-")
	info := name + ".dist-info/"
	rows, err := csv.NewReader(strings.NewReader(files[info+"RECORD"])).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, len(files))
	for _, row := range rows[:len(rows)-1] {
		sum := sha256.Sum256([]byte(files[row[0]]))
		require.Equal(t, []string{row[0], "sha256=" + base64.RawURLEncoding.EncodeToString(sum[:]), fmt.Sprint(len(files[row[0]]))}, row)
	}
	require.Equal(t, []string{info + "RECORD", "", ""}, rows[len(rows)-1])

	script := name + ".data/scripts/penstock"
	if goos == "windows" {
		script += ".exe"
	}
	program, err := os.ReadFile(bin)
	require.NoError(t, err)
	require.True(t, files[script] == string(program), "the wheel has the binary")
	require.Equal(t, fs.FileMode(0o755), modes[script])
	require.Equal(t, fs.FileMode(0o644), modes["penstock/__init__.py"])
	require.Contains(t, files, "penstock/py.typed")
	valid(t, []byte(files[info+"sboms/penstock.cdx.json"]))
	require.Contains(t, files[info+"licenses/LICENSE"], "Apache License")
	for _, tag := range strings.Split(strings.TrimSuffix(strings.SplitN(filepath.Base(path), "-", 5)[4], ".whl"), ".") {
		require.Contains(t, files[info+"WHEEL"], "Tag: py3-none-"+tag+"\n")
	}
	metadata, readme, _ := strings.Cut(files[info+"METADATA"], "\n\n")
	require.Contains(t, metadata, "Requires-Dist: duckdb>=1.4; extra == \"duckdb\"\n")
	require.Contains(t, readme, "# penstock\n")
}

func TestPythonVersion(t *testing.T) {
	for module, want := range map[string]string{
		"0.1.0": "0.1.0", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-alpha.2": "1.2.3a2", "1.2.3-beta3": "1.2.3b3", "0.1.0+dirty": "0.1.0+dirty", "(devel)": "0.0.0.dev0",
		"0.0.0-20260102030405-0123456789ab":         "0.0.0.dev20260102030405+0123456789ab",
		"0.1.1-0.20260102030405-0123456789ab+dirty": "0.1.1.dev20260102030405+0123456789ab.dirty",
		"0.1.0-next": "", "next": "", "": "",
	} {
		got, err := pythonVersion(module)
		require.Equal(t, want == "", err != nil, "%s: %v", module, err)
		if err == nil {
			require.Equal(t, want, got, module)
		}
	}
}

// TestGlibc reads the versions of libraries that a program with cgo needs, and compares the result with the versions
// that this system has.
func TestGlibc(t *testing.T) {
	for version, want := range map[string]int{
		"GLIBC_2.2.5": 2, "GLIBC_2.34": 34, "GLIBC_ABI_DT_RELR": 36, "GLIBCXX_3.4": 17, "GLIBCXX_3.4.19": 17, "GLIBCXX_3.4.20": 24, "GLIBCXX_3.4.30": 35,
		"GLIBCXX_3.4.31": 39, "CXXABI_1.3": 17, "CXXABI_1.3.13": 34, "GCC_3.0": 17, "GCC_4.8.0": 17, "GCC_7.0.0": 27,
		"GLIBCXX_3.4.99": 0, "CXXABI_FLOAT128": 0, "GCC_99.0": 0, "GLIBC_3.0": 0, "LIBFOO_1": 0,
	} {
		got, err := glibcFor(version)
		require.Equal(t, want == 0, err != nil, "%s: %v", version, err)
		require.Equal(t, want, got, version)
	}
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("needs a C compiler on Linux")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.c"), []byte("#include <stdio.h>\nint main(void) { return puts(\"hello\") < 0; }\n"), 0o600))
	compile := func(flags ...string) (int, error) {
		text, err := exec.Command("cc", append([]string{"-o", bin, filepath.Join(dir, "a.c")}, flags...)...).CombinedOutput()
		require.NoError(t, err, string(text))
		return glibc(bin)
	}
	minor, err := compile()
	require.NoError(t, err)
	require.GreaterOrEqual(t, minor, 17)
	minor, err = compile("-static")
	require.NoError(t, err)
	require.Zero(t, minor)
	lib := filepath.Join(dir, "libown.so")
	require.NoError(t, exec.Command("cc", "-shared", "-o", lib, filepath.Join(dir, "a.c")).Run())
	_, err = compile("-Wl,--no-as-needed", lib)
	require.ErrorContains(t, err, "libown.so, which not every system has")
}
