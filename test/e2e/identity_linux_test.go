package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"filippo.io/age"
)

// The program takes the identity out of its environment, which is where people and CIs have it: the hub that it starts needs it
// all the same.
func TestTheHubOfALocalFleetHasTheIdentityOfTheEnvironment(t *testing.T) {
	l := alone(t)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	plain := l.env
	t.Cleanup(func() { l.run("down", "--yes", l.repo) })
	up := []string{"up", "--local", "--port", port, "--clusters", only, l.repo}

	l.env = append(plain, "PLURAL_IDENTITY_FD=3")
	out, err := l.command(filepath.Join(l.bin, "plural"), up...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "name that in PLURAL_IDENTITY_FILE") {
		t.Errorf("with a descriptor that the hub cannot have: %v\n%s", err, out)
	}

	l.env = append(plain, "PLURAL_IDENTITY="+identity.String())
	l.run(up...)
	l.env = plain
	hub := l.parts()["hub"]
	args, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(hub.PID), "cmdline"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, given := strings.Cut(string(args), "\x00--identity\x00")
	file, _, _ := strings.Cut(after, "\x00")
	text, err := os.ReadFile(file)
	if !given || err != nil || strings.TrimSpace(string(text)) != identity.String() {
		t.Errorf("the hub has no identity: it was started with %q; %v", args, err)
	}
	if strings.Contains(string(args), identity.String()) {
		t.Error("the identity is among the arguments, which everybody sees")
	}
	l.run("down", "--yes", l.repo)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the identity outlives the fleet: %v", err)
	}
}
