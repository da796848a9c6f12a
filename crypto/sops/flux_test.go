package sops_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/sops"
)

// fluxModule holds files that other people sealed with sops, for Flux's own tests.
const fluxModule = "github.com/fluxcd/kustomize-controller@v1.9.6"

// fluxFiles is their folder in the module cache.
func fluxFiles(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", fluxModule)
	command.Dir = t.TempDir() // outside of any module
	said, err := command.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(said, &module)
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("download %s: %v: %s", fluxModule, err, said)
	}
	if err != nil {
		t.Skipf("NOT CHECKED against files of others: download %s: %v: %s", fluxModule, err, said)
	}
	return filepath.Join(module.Dir, "internal", "controller", "testdata", "sops")
}

func TestTheFilesOfFluxAreOpened(t *testing.T) {
	dir := fluxFiles(t)
	var ids []age.Identity
	for _, name := range []string{"age.txt", "age-pq.txt", "age-global.txt"} {
		found, err := age.ParseIdentities(bytes.NewReader(read(t, filepath.Join(dir, "keys", name))))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, found...)
	}
	for name, want := range map[string]string{
		"algorithms/age.yaml": "value", "algorithms/age-pq.yaml": "value", "global/secret.yaml": "global-value",
		"envs/env.env": "key=value", "component/env.env": "key=value", "remote/env.env": "key=value",
		"files/file.txt": "value", "patches/merge1.yaml": "merge1", "patches/merge2.yaml": "merge2", "inside": "value",
	} {
		data := fluxFile(t, dir, name)
		if !sops.IsSOPS(name, data) {
			t.Errorf("%s is not known as a file of sops", name)
		}
		got, err := sops.Open(name, data, ids...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(string(got), want) || strings.Contains(string(got), "ENC[") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := sops.Open("pgp.yaml", fluxFile(t, dir, "algorithms/pgp.yaml"), ids...); err == nil || !strings.Contains(err.Error(), "a key of pgp") {
		t.Errorf("pgp.yaml: %v", err)
	}
}

// fluxFile reads a file; "inside" is one that Flux keeps in a Secret.
func fluxFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	if name != "inside" {
		return read(t, filepath.Join(dir, filepath.FromSlash(name)))
	}
	var secret struct{ Data map[string]string }
	if err := yaml.Unmarshal(read(t, filepath.Join(dir, "inside", "secret.yaml")), &secret); err != nil {
		t.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(secret.Data["key"])
	if err != nil {
		t.Fatal(err)
	}
	return data
}
