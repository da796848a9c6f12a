package hubsvc

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/needs"
)

func TestAHubWhoseDiskWasFullWritesAllDownAgainWithoutARestart(t *testing.T) {
	o := fleetrepo.New(t)
	key, bearer := agent(t, "a")
	o.Push(fleetrepo.TwoServices(key))
	opts := options(t, o)
	opts.Data = filepath.Join(needs.SmallDisk(t, "size=24m"), "data")
	hub := start(t, opts)
	hub.ready()
	report := func(agentVersion string, sequence uint64) {
		t.Helper()
		noise := make([]byte, 64<<10) // more than the file's last page may have room for, also packed
		_, _ = rand.Read(noise)
		body, err := proto.Marshal(&api.Report{AgentVersion: agentVersion, Boot: "x", Sequence: sequence, Services: []*api.ServiceReport{
			{Service: "one", Key: "k", Phase: api.Phase_FAILED, Message: hex.EncodeToString(noise)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if code, body := hub.do(http.MethodPost, api.ReportPath, bearer(), body); code != http.StatusNoContent {
			t.Fatalf("report: %d %s", code, body)
		}
	}
	get := func(path string, into any) {
		t.Helper()
		if code, body := hub.do(http.MethodGet, path, hub.token, nil); code != http.StatusOK || json.Unmarshal(body, into) != nil {
			t.Fatalf("%s: %d %s", path, code, body)
		}
	}
	figure := func(name string) string {
		_, body := hub.do(http.MethodGet, "/metrics", hub.token, nil)
		for line := range strings.Lines(string(body)) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				return strings.TrimSpace(value)
			}
		}
		return "none"
	}
	report("v1", 1)
	fleetrepo.Until(t, "the first report is written", func() bool { return figure("plural_hub_reports_unwritten") == "0" })
	release := needs.FillDisk(t, opts.Data)
	report("v2", 2)
	fleetrepo.Until(t, "the hub says that its disk is full", func() bool {
		var said v1.Hub
		get("/v1/hub", &said)
		return strings.Contains(said.StoreError, "no space left")
	})
	if failed := figure("plural_hub_store_failed"); failed != "1" {
		t.Errorf("the figure of a failed store is %s", failed)
	}
	o.Push(map[string]string{"README.md": "one more commit"})
	release()
	fleetrepo.Until(t, "all is written", func() bool {
		return figure("plural_hub_store_failed") == "0" && figure("plural_hub_reports_unwritten") == "0"
	})
	hub.stop()
	hub = start(t, opts)
	hub.ready()
	fleetrepo.Until(t, "the report that came meanwhile is there after a restart", func() bool {
		var found v1.Cluster
		get("/v1/clusters/a", &found)
		return found.AgentVersion == "v2"
	})
}
