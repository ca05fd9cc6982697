package main

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

// manifest has the fields of Kubernetes objects that TestKubernetes compares.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		MaxUnavailable int `yaml:"maxUnavailable"`
		Ports          []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace           int   `yaml:"terminationGracePeriodSeconds"`
				Token           *bool `yaml:"automountServiceAccountToken"`
				SecurityContext struct {
					NonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers []manifestContainer
			}
		}
		ScaleTargetRef struct{ Name string } `yaml:"scaleTargetRef"`
		Triggers       []struct {
			Metadata          map[string]string
			AuthenticationRef struct{ Name string } `yaml:"authenticationRef"`
		}
		SecretTargetRef []struct{ Name, Key string } `yaml:"secretTargetRef"`
	}
}

type manifestProbe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	Period  int                         `yaml:"periodSeconds"`
	Failure int                         `yaml:"failureThreshold"`
}

type manifestContainer struct {
	Args  []string
	Env   []struct{ Name string }
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	StartupProbe    *manifestProbe `yaml:"startupProbe"`
	LivenessProbe   *manifestProbe `yaml:"livenessProbe"`
	ReadinessProbe  *manifestProbe `yaml:"readinessProbe"`
	SecurityContext struct {
		ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
}

func manifests(t *testing.T) (all []manifest) {
	t.Helper()
	for _, file := range []string{"migrate.yaml", "serve.yaml", "worker.yaml", "keda/scaler.yaml"} {
		for _, text := range strings.Split(deployed(t, filepath.Join("kubernetes", file)), "\n---\n") {
			var m manifest
			require.NoError(t, yaml.Unmarshal([]byte(text), &m), file)
			all = append(all, m)
		}
	}
	return all
}

// kubernetesConfig reads the configuration that the manifests use, and returns the names of the secrets that the
// configuration reads.
func kubernetesConfig(t *testing.T) (c *config.Config, secrets []string) {
	t.Helper()
	cat, err := schemas.Load()
	require.NoError(t, err)
	c, err = config.Parse([]byte(deployed(t, "kubernetes/pipelines.yaml")), config.Input{
		File: "pipelines.yaml", Catalogue: cat.Streams(), Schemes: []string{"postgres"},
		Env: func(name string) (string, bool) { return "https://api.example.com", name == "PENSTOCK_V2_URL" },
		Read: func(path string) (string, error) {
			name, ok := strings.CutPrefix(path, "/run/secrets/penstock/")
			if !ok {
				return "", errors.New("no such file")
			}
			secrets = append(secrets, name)
			switch {
			case strings.HasSuffix(name, "_url"):
				return "postgres://penstock@db/" + name, nil
			case name == "state_key":
				return "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ", nil
			}
			return "secret-secret-" + name, nil
		},
	})
	require.NoError(t, err)
	return c, secrets
}

// TestKubernetes checks that the manifests agree with the configuration that they use, and with penstock's routes and
// metrics. `make manifests` checks the manifests against the API of Kubernetes.
func TestKubernetes(t *testing.T) {
	c, secrets := kubernetesConfig(t)
	listens := map[string]string{"serve": c.Serve.Listen, "worker": c.Worker.Listen}
	require.NotEmpty(t, c.State.URL)
	metrics, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	budgets, deployments := map[string]bool{}, map[string]bool{}
	for _, m := range manifests(t) {
		pod := m.Spec.Template.Spec
		switch m.Kind {
		case "Deployment":
			part := pod.Containers[0].Args[0]
			deployments[part] = true
			_, port, err := net.SplitHostPort(listens[part])
			require.NoError(t, err)
			require.Equal(t, port, portText(pod.Containers[0].Ports[0].Port), part)
			probesWork(t, pod.Containers[0])
			require.Equal(t, m.Spec.Selector.MatchLabels, m.Spec.Template.Metadata.Labels)
			fallthrough
		case "Job":
			require.Greater(t, pod.Grace, 10, "the grace period must be longer than the ten seconds that penstock needs after SIGTERM")
			require.True(t, pod.SecurityContext.NonRoot)
			require.False(t, *pod.Token)
			one := pod.Containers[0]
			require.True(t, one.SecurityContext.ReadOnly)
			require.False(t, *one.SecurityContext.Escalation)
			require.Equal(t, []string{"ALL"}, one.SecurityContext.Capabilities.Drop)
		case "PodDisruptionBudget":
			require.Equal(t, 1, m.Spec.MaxUnavailable)
			budgets[m.Spec.Selector.MatchLabels["app.kubernetes.io/component"]] = true
		case "ScaledObject":
			require.Equal(t, "penstock-worker", m.Spec.ScaleTargetRef.Name)
			for _, trigger := range m.Spec.Triggers {
				require.Contains(t, string(metrics), "`"+trigger.Metadata["valueLocation"]+"`")
				at, err := url.Parse(trigger.Metadata["url"])
				require.NoError(t, err)
				require.Equal(t, "/metrics", at.Path)
				require.Contains(t, c.Serve.Hosts, at.Hostname(), "serve answers only requests with its host names")
			}
		case "TriggerAuthentication":
			require.Contains(t, secrets, m.Spec.SecretTargetRef[0].Key)
		}
	}
	require.Equal(t, map[string]bool{"serve": true, "worker": true}, deployments)
	require.Equal(t, deployments, budgets)
	require.True(t, slices.ContainsFunc(c.Serve.Tokens, func(k config.ServeToken) bool { return k.Name == "scaler" && k.Role == "metrics" }))
}

func portText(port int) string {
	_, text, _ := net.SplitHostPort((&net.TCPAddr{Port: port}).String())
	return text
}

// probesWork checks that a container is not restarted while it waits for the state database.
func probesWork(t *testing.T, c manifestContainer) {
	t.Helper()
	for want, all := range map[string][]*manifestProbe{"/healthz": {c.StartupProbe, c.LivenessProbe}, "/readyz": {c.ReadinessProbe}} {
		for _, p := range all {
			require.Equal(t, want, p.HTTPGet.Path)
			require.Equal(t, c.Ports[0].Name, p.HTTPGet.Port)
		}
	}
	require.GreaterOrEqual(t, c.StartupProbe.Period*c.StartupProbe.Failure, 90)
}
