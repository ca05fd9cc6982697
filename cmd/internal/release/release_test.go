package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

func goTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// builds skips the calling test in short mode, because building a program takes as long as a hundred other tests. `make
// parts` runs these tests.
func builds(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make parts runs this test")
	}
}

func TestBOM(t *testing.T) {
	builds(t)
	bin := filepath.Join(t.TempDir(), "penstock")
	goTool(t, "", "build", "-tags", "duckdb_arrow", "-ldflags", "-s -w", "-o", bin, "github.com/penstock-data/penstock/cmd/penstock")
	b, err := read(bin)
	require.NoError(t, err)
	native, err := b.native()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "bom.json")
	require.NoError(t, writeJSON(path, b.bom(native)))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	valid(t, text)

	var bom cdx.BOM
	require.NoError(t, json.Unmarshal(text, &bom))
	listed, parts := map[string]string{}, map[string]cdx.Component{}
	for _, c := range *bom.Components {
		parts[c.Name] = c
		if strings.HasPrefix(c.PackageURL, "pkg:golang/") && c.Name != "std" {
			listed[c.Name] = c.Version
		}
	}
	inBinary := map[string]string{}
	for line := range strings.Lines(goTool(t, "", "version", "-m", bin)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			inBinary[f[1]] = f[2]
		}
	}
	require.Greater(t, len(inBinary), 50)
	require.Equal(t, inBinary, listed)
	require.Equal(t, strings.TrimSpace(goTool(t, "", "env", "GOVERSION")), parts["std"].Version)
	sum, err := sumOf(bin)
	require.NoError(t, err)
	require.Equal(t, sum, (*bom.Metadata.Component.Hashes)[0].Value)

	program, err := os.ReadFile(bin)
	require.NoError(t, err)
	for module := range inBinary {
		if strings.HasPrefix(module, engineModule) {
			engine, ok := parts["duckdb"]
			require.True(t, ok, "the engine is in the SBOM")
			require.True(t, bytes.Contains(program, []byte(engine.Version)), "the binary contains the version of its engine")
			require.Greater(t, len(*engine.Components), 15)
			for _, c := range *engine.Components {
				require.Len(t, *c.Hashes, 1, c.Name)
			}
		}
	}
	if ldd, err := exec.Command("ldd", bin).Output(); err == nil {
		for name, c := range parts {
			require.True(t, !strings.HasPrefix(c.BOMRef, "system/") || bytes.Contains(ldd, []byte(name)), name)
		}
	}
	require.Len(t, *(*bom.Dependencies)[0].Dependencies, len(*bom.Components))
}

func valid(t *testing.T, text []byte) {
	t.Helper()
	dir := filepath.Join(strings.TrimSpace(goTool(t, "", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go")), "schema")
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	const at = "http://cyclonedx.org/schema/"
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		f, err := os.Open(filepath.Join(dir, file))
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(f)
		require.NoError(t, errors.Join(err, f.Close()))
		require.NoError(t, c.AddResource(at+name, doc))
	}
	schema, err := c.Compile(at + "bom-1.6.schema.json")
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, schema.Validate(doc))
	delete(doc.(map[string]any), "bomFormat")
	require.Error(t, schema.Validate(doc), "control: the schema refuses an invalid document")
}

func commit(t *testing.T, dir string) (build func() string) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/program\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return func() string {
		bin := filepath.Join(t.TempDir(), "penstock")
		goTool(t, dir, "build", "-trimpath", "-buildvcs=true", "-o", bin, ".")
		return bin
	}
}

// testOptions are the options of a release whose only documents are those of this project.
func testOptions(bin, out string) options {
	return options{bin: bin, out: out, python: "../../../python", license: "../../../LICENSE", builder: localBuilder}
}

func TestRelease(t *testing.T) {
	builds(t)
	var made [2]map[string]string
	for i := range made {
		dir, out := t.TempDir(), t.TempDir()
		o := testOptions(commit(t, dir)(), out)
		require.NoError(t, release(o))
		made[i] = map[string]string{}
		files, err := os.ReadDir(out)
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(out, f.Name()))
			require.NoError(t, err)
			made[i][f.Name()] = string(text)
			if strings.HasSuffix(f.Name(), ".cdx.json") {
				valid(t, text)
			}
		}
		sums, err := filepath.Glob(filepath.Join(out, "*.sha256"))
		require.NoError(t, err)
		check := exec.Command("sha256sum", "--check", "--strict", sums[0])
		check.Dir = out
		text, err := check.CombinedOutput()
		require.NoError(t, err, string(text))
		require.Equal(t, 4, strings.Count(string(text), ": OK"))

		sum, err := sumOf(strings.TrimSuffix(sums[0], ".sha256") + ".tar.gz")
		require.NoError(t, err)
		require.Contains(t, made[i]["penstock.rb"], filepath.Base(strings.TrimSuffix(sums[0], ".sha256"))+".tar.gz\"\n      sha256 \""+sum+"\"")

		var s statement
		text, err = os.ReadFile(strings.TrimSuffix(sums[0], ".sha256") + ".intoto.json")
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &s))
		require.Equal(t, sum, s.Subject[0].Digest["sha256"])
		packed, inBinary := unpack(t, strings.TrimSuffix(sums[0], ".sha256")+".tar.gz")
		require.Equal(t, []string{"penstock -rwxr-xr-x", "LICENSE -rw-r--r--"}, packed)
		require.Equal(t, inBinary, s.Subject[3].Digest["sha256"])
		require.Equal(t, "penstock-0.0.0.dev20260102030405+"+s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"][:12]+"-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl",
			strings.ReplaceAll(s.Subject[1].Name, "aarch64", "x86_64"))
		head, err := exec.Command("git", "-C", dir, "rev-parse", "HEAD").Output()
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(head)), s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
	}
	require.Equal(t, made[0], made[1])

	dir := t.TempDir()
	build := commit(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "more.go"), []byte("package main\n"), 0o600))
	require.ErrorContains(t, release(testOptions(build(), t.TempDir())), "uncommitted changes")
	bin := filepath.Join(t.TempDir(), "penstock")
	goTool(t, dir, "build", "-buildvcs=false", "-o", bin, ".")
	require.ErrorContains(t, release(testOptions(bin, t.TempDir())), "has no commit")
}

func unpack(t *testing.T, path string) (names []string, sum string) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	require.NoError(t, err)
	for all := tar.NewReader(zip); ; {
		h, err := all.Next()
		if errors.Is(err, io.EOF) {
			return names, sum
		}
		require.NoError(t, err)
		names = append(names, h.Name+" "+h.FileInfo().Mode().String())
		if len(names) == 1 {
			to := filepath.Join(t.TempDir(), "first")
			text, err := io.ReadAll(all)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to, text, 0o600))
			sum, err = sumOf(to)
			require.NoError(t, err)
		}
	}
}

func TestEngineVersion(t *testing.T) {
	for module, want := range map[string]string{"v0.10505.0": "v1.5.5", "v0.20012.3": "v2.0.12", "v1.2": "", "v0.5.0": "", "v0.x.0": ""} {
		got, err := engineVersion(module)
		require.Equal(t, want, got, module)
		require.Equal(t, want == "", err != nil, module)
	}
}
