package cmdutil

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/adrg/xdg"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

// TestAnAbsentAgentIsToldWithWhatBringsItBack knows the stopped processes of this machine's fleets.
func TestAnAbsentAgentIsToldWithWhatBringsItBack(t *testing.T) {
	before := xdg.StateHome
	t.Cleanup(func() { xdg.StateHome = before })
	xdg.StateHome = t.TempDir()
	for name, text := range map[string]string{
		"fleet.json":                    `{"repo": "/fleet", "hub": "http://127.0.0.1:8080"}`,
		"processes/agent-edge-1.json":   `{"name": "agent-edge-1", "stopped": true}`,
		"processes/agent-edge-2.json":   `{"name": "agent-edge-2"}`,
		"processes/cluster-edge-2.json": `{"name": "cluster-edge-2", "stopped": true}`,
	} {
		file := filepath.Join(LocalState(), "fleet-1", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at, fix := range map[[2]string]string{
		{"http://127.0.0.1:8080", "edge-1"}:   "plural local start agent-edge-1",
		{"http://127.0.0.1:8080", "edge-2"}:   "plural cluster get edge-2 says when its agent was heard last",
		{"https://hub.example.com", "edge-1"}: "plural cluster get edge-1 says when its agent was heard last",
	} {
		var told *ui.Err
		err := Explain(&client.Error{Status: http.StatusServiceUnavailable, Message: "away", Hub: at[0], Cluster: at[1]})
		if !errors.As(err, &told) || told.Msg != "away" || told.Fix != fix || told.Doc != ui.DocAgentStale {
			t.Errorf("%v: %+v", at, told)
		}
	}
	const hub = "http://127.0.0.1:8080"
	for _, tt := range []struct {
		d       v1.Deployment
		at, fix string
	}{
		{v1.Deployment{Cluster: "edge-1", Phase: v1.Stale}, hub, "plural local start agent-edge-1"},
		{v1.Deployment{Cluster: "edge-1", Phase: v1.Stale}, "https://hub.example.com", "plural why web"},
		{v1.Deployment{Cluster: "edge-2", Phase: v1.Stale}, hub, "plural why web"},
		{v1.Deployment{Cluster: "edge-2", Phase: v1.Failed, Unreached: true}, hub, "plural local start cluster-edge-2"},
		{v1.Deployment{Cluster: "edge-1", Phase: v1.Failed, Unreached: true}, hub, "plural cluster get edge-1"},
	} {
		if tt.d.Service = "web"; MendDeployment(&tt.d, tt.at) != tt.fix {
			t.Errorf("%+v of %s: %q, want %q", tt.d, tt.at, MendDeployment(&tt.d, tt.at), tt.fix)
		}
	}
}

// TestAHubThatSomebodyStoppedIsToldWithWhatStartsIt is about a fleet that is up: a supervisor holds its lock.
func TestAHubThatSomebodyStoppedIsToldWithWhatStartsIt(t *testing.T) {
	before := xdg.StateHome
	t.Cleanup(func() { xdg.StateHome = before })
	xdg.StateHome = t.TempDir()
	dir := filepath.Join(LocalState(), "fleet-1")
	hub := filepath.Join(dir, "processes", "hub.json")
	if err := os.MkdirAll(filepath.Dir(hub), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "fleet.json"), `{"repo": "/fleet", "hub": "http://127.0.0.1:8080"}`)
	lock := filepath.Join(dir, "supervisor.lock")
	write(lock, strconv.Itoa(os.Getpid()))
	held, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	says := func(address, wanted, msg, fix string) {
		t.Helper()
		var told *ui.Err
		err := Explain(&client.Unreachable{Hub: address, Wanted: wanted, Err: syscall.ECONNREFUSED})
		if !errors.As(err, &told) || told.Msg != msg || !strings.HasPrefix(told.Fix, fix) {
			t.Errorf("%s: %+v", address, told)
		}
	}
	const elsewhere = "see that it runs and that this is its address"
	write(hub, `{"name": "hub", "stopped": true}`)
	says("http://127.0.0.1:8080", "", "the hub of this fleet is stopped", "plural local start hub")
	says("http://127.0.0.1:8080", "a1", "cannot reach the hub at http://127.0.0.1:8080", elsewhere)
	says("http://127.0.0.1:8081", "", "cannot reach the hub at http://127.0.0.1:8081", elsewhere)
	write(hub, `{"name": "hub"}`)
	says("http://127.0.0.1:8080", "", "cannot reach the hub at http://127.0.0.1:8080", elsewhere)
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	write(hub, `{"name": "hub", "stopped": true}`)
	says("http://127.0.0.1:8080", "", "this fleet is down", "plural up --local /fleet")
}

// TestWhatAClusterForbidsIsNotToldAsTheHubsWord knows the words of API servers from those of hubs.
func TestWhatAClusterForbidsIsNotToldAsTheHubsWord(t *testing.T) {
	const said = `pods is forbidden: User "plural:ada" cannot list resource "pods" in API group "" in the namespace "web"`
	for _, tt := range []struct{ cluster, message, msg, fix string }{
		{"edge-1", said, "RBAC of cluster edge-1 does not let you do this", "--clusterrole=view --user=plural:ada"},
		{"edge-1", "no role lets you", "the hub does not let you do this", "plural auth status"},
		{"", said, "the hub does not let you do this", "plural auth status"},
	} {
		var told *ui.Err
		err := Explain(&client.Error{Status: http.StatusForbidden, Message: tt.message, Cluster: tt.cluster})
		if !errors.As(err, &told) || told.Msg != tt.msg || told.Cause != tt.message || !strings.Contains(told.Fix, tt.fix) {
			t.Errorf("%+v: %+v", tt, told)
		}
	}
}
