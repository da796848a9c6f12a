package e2e

import (
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
)

// remotesRender copies a kustomization that names a repository, a file and a chart, makes sources of them by one command, and
// sees what they say in the cluster.
func remotesRender(t *testing.T, s *site) {
	server := library(t, s)
	s.write(map[string]string{
		"services/remotes.yaml": settings("remotes"),
		"apps/remotes/kustomization.yaml": "namespace: " + namespace + "\nresources:\n- " + server + "/git/lib//overlays/one?ref=v1\n- " + server + "/files/more.yaml\n" +
			"helmCharts:\n- {name: here, releaseName: remote}\n",
		"apps/remotes/charts/here/Chart.yaml":         "apiVersion: v2\nname: here\nversion: 1.0.0\n",
		"apps/remotes/charts/here/values.yaml":        "value: charted\n",
		"apps/remotes/charts/here/templates/all.yaml": configMap("{{ .Release.Name }}-chart", "{{ .Values.value }}"),
	})
	s.says(s.run("source", "add", "--from-kustomization", "apps/remotes", "--no-push"))
	if commit := s.push("Copy a kustomization with remotes"); commit == "" {
		t.Fatal("nothing was pushed")
	}
	s.run("source", "sync", ".")
	s.healthy("remotes")
	for name, want := range map[string]string{"based": "one", "filed": "file", "remote-chart": "charted"} {
		if got := s.field(configMaps, name, "data", "value"); got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
}

// library serves a repository with the tag v1, and a file.
func library(t *testing.T, s *site) (url string) {
	dir := t.TempDir()
	work, bare := filepath.Join(dir, "work"), filepath.Join(dir, "served", "lib.git")
	s.file(filepath.Join(work, "base", "kustomization.yaml"), "resources: [cm.yaml]\n")
	s.file(filepath.Join(work, "base", "cm.yaml"), configMap("based", "none"))
	s.file(filepath.Join(work, "overlays", "one", "kustomization.yaml"),
		"resources: [../../base]\npatches:\n- patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: based}, data: {value: one}}'\n")
	for _, args := range [][]string{
		{"init", "-q", work},
		{"-C", work, "add", "-A"},
		{"-C", work, "commit", "-qm", "one"},
		{"-C", work, "tag", "v1"},
		{"clone", "-q", "--bare", work, bare},
	} {
		if out, err := s.command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/files/more.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, configMap("filed", "file")) })
	mux.Handle("/git/", http.StripPrefix("/git", &cgi.Handler{
		Path: needs.Program(t, "git", "git"), Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir},
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}
