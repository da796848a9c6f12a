package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramsThatAreStartedGetNoIdentity(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "plural") // see TestMain
	if err := os.Symlink(program, self); err != nil {
		t.Fatal(err)
	}
	seen := filepath.Join(dir, "seen")
	for name, text := range map[string]string{
		"editor":      "env > '" + seen + "'\n",
		"plural-look": "env > '" + seen + "'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args string
		own  bool // it is told: plugins run this program
	}{{"config edit", false}, {"look", true}} {
		cmd := exec.CommandContext(t.Context(), self, strings.Fields(tc.args)...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "PLURAL_CONFIG_DIR=" + dir, "PLURAL_EDITOR=" + filepath.Join(dir, "editor"),
			"PLURAL_IDENTITY=AGE-SECRET-KEY-1CANARY",
		}
		out, _ := cmd.CombinedOutput() // an editor that changes nothing is an error to some
		text, err := os.ReadFile(seen)
		if err != nil {
			t.Fatalf("plural %s started nothing: %v\n%s", tc.args, err, out)
		}
		if strings.Contains(string(text), "CANARY") != tc.own {
			t.Errorf("plural %s: its child had\n%s", tc.args, text)
		}
		if err := os.Remove(seen); err != nil {
			t.Fatal(err)
		}
	}
}
