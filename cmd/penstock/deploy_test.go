package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("deploy", name))
	require.NoError(t, err)
	return string(text)
}

// TestUnit lets systemd check that the units are valid and hardened.
func TestUnit(t *testing.T) {
	for name, folder := range map[string]string{"penstock.service": "penstock", "penstock-worker.service": "penstock-worker"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkUnit(t, name, folder)
		})
	}
}

func checkUnit(t *testing.T, name, folder string) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	unit := filepath.Join(t.TempDir(), name)
	text := deployed(t, name)
	require.NoError(t, os.WriteFile(unit, []byte(strings.ReplaceAll(text, "/usr/bin/penstock", self)), 0o600))
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	require.NoError(t, err, string(out))
	require.NotContains(t, string(out), name+":", "systemd has a warning")
	out, err = exec.Command(analyze, "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
	require.NoError(t, err, "exposure is above 2.0:\n%s", out)
	for _, line := range []string{"Type=notify", "DynamicUser=yes", "StateDirectory=" + folder, "ExecReload=kill -HUP $MAINPID", "NoNewPrivileges=yes", "ProtectSystem=strict", "MemoryDenyWriteExecute=yes"} {
		require.Contains(t, text, "\n"+line+"\n")
	}
}

// TestDockerfile checks the build stages of the Dockerfile. Without -short, it also runs the command that builds the
// binary.
func TestDockerfile(t *testing.T) {
	text := deployed(t, "Dockerfile")
	steps := regexp.MustCompile(`(?m)^(FROM|RUN|COPY|USER|HEALTHCHECK|ENTRYPOINT|CMD|VOLUME|WORKDIR|EXPOSE|STOPSIGNAL) (.*)$`).FindAllStringSubmatch(text, -1)
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word != "" && !strings.HasPrefix(word, "#") {
			require.Regexp(t, `^(FROM|RUN|COPY|USER|HEALTHCHECK|ENTRYPOINT|CMD|VOLUME|WORKDIR|EXPOSE|STOPSIGNAL)$`, word)
		}
	}
	var stages, build []string
	user := ""
	for _, s := range steps {
		switch {
		case s[1] == "FROM":
			stages, user = append(stages, s[2]), ""
		case s[1] == "USER":
			user = s[2]
		case s[1] == "RUN" && len(stages) == 2:
			t.Errorf("the last stage has no shell to run %q", s[2])
		case s[1] == "RUN" && strings.HasPrefix(s[2], "make build"):
			build = strings.Fields(s[2])
		}
	}
	require.Len(t, stages, 2)
	require.Contains(t, stages[1], "distroless")
	require.NotEmpty(t, user)
	require.NotContains(t, user, "root:root")
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(mod))[1]
	require.Contains(t, stages[0], "golang:"+version+"-", "the image must have the Go version of go.mod")
	require.Equal(t, []string{"make", "build", "BIN=/out/penstock"}, build)
	if testing.Short() {
		t.Skip("only the long form of the test builds the binary")
	}
	bin := filepath.Join(t.TempDir(), "penstock")
	cmd := exec.Command("make", "build", "BIN="+bin)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(bin, "version").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "duckdb_arrow")
}

// TestImages: each image has a version tag. `make images` adds a digest to each image. If only some images have a
// digest, the test fails.
func TestImages(t *testing.T) {
	var images []string
	for _, file := range []string{"Dockerfile", "compose.yaml"} {
		for _, m := range regexp.MustCompile(`(?m)^(?:FROM| *image:) (\S+)`).FindAllStringSubmatch(deployed(t, file), -1) {
			images = append(images, m[1])
		}
	}
	require.Len(t, images, 5)
	pinned := 0
	for _, image := range images {
		require.Regexp(t, `^[a-z0-9./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?$`, image)
		require.NotContains(t, image, ":latest")
		if strings.Contains(image, "@") {
			pinned++
		}
	}
	require.Contains(t, []int{0, len(images)}, pinned, "run make images")
}

// TestCompose checks the security settings of compose.yaml: a read-only container without capabilities, ports only on
// loopback, and secrets only from files. It also parses pipelines.yaml.
func TestCompose(t *testing.T) {
	var c struct {
		Services map[string]struct {
			ReadOnly    bool              `yaml:"read_only"`
			CapDrop     []string          `yaml:"cap_drop"`
			SecurityOpt []string          `yaml:"security_opt"`
			Privileged  bool              `yaml:"privileged"`
			Ports       []string          `yaml:"ports"`
			Volumes     []string          `yaml:"volumes"`
			Secrets     []string          `yaml:"secrets"`
			Environment map[string]string `yaml:"environment"`
		}
		Secrets map[string]struct{ File string }
		Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal([]byte(deployed(t, "compose.yaml")), &c))
	own := c.Services["penstock"]
	require.True(t, own.ReadOnly)
	require.Equal(t, []string{"ALL"}, own.CapDrop)
	require.NotEqual(t, "penstock", c.Services["postgres"].Environment["POSTGRES_USER"], "penstock must not load with the superuser")
	require.Contains(t, c.Services["postgres"].Volumes, "./postgres-role.sh:/docker-entrypoint-initdb.d/role.sh:ro")
	require.NotContains(t, own.Secrets, "postgres_admin_password")
	for name, s := range c.Services {
		require.False(t, s.Privileged, name)
		require.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		for _, p := range s.Ports {
			require.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s: %s is open to other machines", name, p)
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if file, ok := strings.CutPrefix(from, "./"); ok {
				require.FileExists(t, filepath.Join("deploy", file), name)
			} else {
				require.Contains(t, c.Volumes, from, name)
			}
		}
		for _, secret := range s.Secrets {
			require.Contains(t, c.Secrets, secret, name)
		}
		for key, value := range s.Environment {
			require.False(t, strings.Contains(strings.ToLower(key), "password") && !strings.HasPrefix(value, "/run/secrets/"), key)
		}
	}
	read := map[string]bool{}
	cat, err := schemas.Load()
	require.NoError(t, err)
	conf, err := config.Parse([]byte(deployed(t, "pipelines.yaml")), config.Input{
		File: "pipelines.yaml", Catalogue: cat.Streams(), Schemes: []string{"postgres"},
		Env: func(name string) (string, bool) {
			_, set := own.Environment[name]
			return "https://api.example.com", set
		},
		Read: func(path string) (string, error) {
			name, ok := strings.CutPrefix(path, "/run/secrets/")
			if !ok {
				return "", errors.New("no such file")
			}
			read[name] = true
			return "secret-" + name, nil
		},
	})
	require.NoError(t, err)
	for name := range read {
		require.Contains(t, own.Secrets, name)
	}
	require.Equal(t, "/data/state", conf.State.Dir)
	require.Contains(t, deployed(t, "Dockerfile"), `VOLUME ["/data"]`)
}

func TestLoopback(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "[::]:8080": "[::1]:8080", "10.0.0.5:80": "10.0.0.5:80",
	} {
		require.Equal(t, want, loopback(listen))
	}
}
