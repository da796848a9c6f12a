package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/audit"
)

// shown is how each command that shows things is called, and, where it shows what a hub says, the type that it has.
var shown = map[string]struct{ args, schema string }{
	"plural status":              {"", "Status"},
	"plural status web":          {"", "DeploymentList"},
	"plural application list":    {"", ""},
	"plural audit list":          {"", "AuditList"},
	"plural cluster list":        {"", "ClusterList"},
	"plural cluster get":         {"edge-1", "ClusterDetail"},
	"plural cluster events":      {"edge-1", "EventList"},
	"plural service list":        {"", "ServiceList"},
	"plural service get":         {"web", "Service"},
	"plural service tree":        {"web", ""},
	"plural service events":      {"web", ""},
	"plural source list":         {"", "SourceList"},
	"plural source get":          {"podinfo", "Source"},
	"plural hub status":          {"", "Hub"},
	"plural package list":        {"", ""},
	"plural package get":         {"agent", ""},
	"plural package search":      {"", ""},
	"plural package show":        {"agent", ""},
	"plural package graph":       {"", ""},
	"plural package outdated":    {"", ""},
	"plural auth token list":     {"", ""},
	"plural local list":          {"", ""},
	"plural crypto members list": {"", ""},
	"plural crypto members get":  {"alice", ""},
	"plural crypto groups list":  {"", ""},
	"plural crypto groups get":   {"fleet", ""},
	"plural crypto status":       {"", ""},
	"plural config list":         {"", ""},
	"plural config get":          {"output", ""},
	"plural plugin list":         {"", ""},
	"plural alias list":          {"", ""},
	"plural service history":     {"web", "RevisionList"},
	"plural secret list":         {"secrets/db.yaml", ""},
	"plural secret get":          {"secrets/db.yaml password", ""},
}

// TestEveryListAndGetSpeaksEveryFormat runs them all in an installation repo, against a hub's canned answers.
func TestEveryListAndGetSpeaksEveryFormat(t *testing.T) {
	root := newRoot(&cmdutil.Factory{IO: &ui.Streams{}, Now: now, Getenv: os.Getenv})
	visit(root, func(cmd *cobra.Command) {
		_, known := shown[cmd.CommandPath()]
		if verb := cmd.Name(); (verb == "list" || verb == "get") && !known {
			t.Errorf("%s is not tried here", cmd.CommandPath())
		}
	})
	desk := newDesk(t)
	description := description(t)
	for command, how := range shown {
		t.Run(command, func(t *testing.T) {
			args := strings.Fields(command + " " + how.args)[1:]
			for _, format := range []string{"table", "wide", "name", "yaml", "json", "jsonpath={}", "template={{.}}"} {
				got := desk.plural(t, append(args, "-o", format)...)
				if got.code != ui.ExitOK || strings.Contains(got.out, "\x1b") {
					t.Errorf("-o %s: %d, %q, %s", format, got.code, got.out, got.errOut)
				}
				if format == "json" {
					description.holds(t, how.schema, got.out)
				}
			}
			if got := desk.plural(t, append(args, "--jq", "type")...); got.out != "object\n" && got.out != "array\n" {
				t.Errorf("--jq: %d, %q, %s", got.code, got.out, got.errOut)
			}
			got := desk.plural(t, append(args, "-o", "json", "--hub", "ftp://nowhere", "--jq", "x x")...)
			var told struct{ Error ui.Err }
			err := json.Unmarshal([]byte(got.errOut), &told)
			if got.code == ui.ExitOK || got.out != "" || err != nil || told.Error.Msg == "" {
				t.Errorf("an error: %d, %q, %q", got.code, got.out, got.errOut)
			}
		})
	}
}

// TestAPipeGetsTheResultAloneWithTheHeaderOfATerminal runs the same commands for both: what --quiet leaves out is never on stdout.
func TestAPipeGetsTheResultAloneWithTheHeaderOfATerminal(t *testing.T) {
	desk := newDesk(t)
	header, port := regexp.MustCompile(`^[A-Z]{3,}`), regexp.MustCompile(`127\.0\.0\.1:\d+`) // each run has a hub of its own
	for command, how := range shown {
		t.Run(command, func(t *testing.T) {
			args := strings.Fields(command + " " + how.args)[1:]
			desk.terminal = true
			terminal := desk.plural(t, args...)
			desk.terminal = false
			piped := desk.plural(t, args...)
			first, _, _ := strings.Cut(terminal.out, "\n")
			if got, _, _ := strings.Cut(piped.out, "\n"); !slices.Equal(strings.Fields(got), strings.Fields(first)) {
				t.Errorf("a pipe begins with %q, a terminal with %q", got, first)
			}
			bare := desk.plural(t, append(args, "--no-headers")...)
			for line := range strings.Lines(bare.out) {
				if header.MatchString(line) {
					t.Errorf("--no-headers leaves %q", line)
				}
			}
			if header.MatchString(piped.out) && strings.Count(bare.out, "\n") >= strings.Count(piped.out, "\n") {
				t.Errorf("--no-headers leaves as much as there was: %q", bare.out)
			}
			quiet := desk.plural(t, append(args, "--quiet")...)
			if port.ReplaceAllString(quiet.out, "") != port.ReplaceAllString(piped.out, "") || quiet.errOut != "" {
				t.Errorf("--quiet: %q and %q, without it %q", quiet.out, quiet.errOut, piped.out)
			}
			if strings.Contains(piped.out, "\nnext  ") {
				t.Errorf("what to do next is on stdout: %q", piped.out)
			}
		})
	}
}

// TestEveryListOfTheHubsIsPickedTheSameWay tries the flags.
func TestEveryListOfTheHubsIsPickedTheSameWay(t *testing.T) {
	for command, key := range map[string]string{
		"cluster list": "name", "service list": "name", "source list": "name", "cluster events": "cluster", "status": "service",
	} {
		h := &recording{answers: everything()}
		args := append(strings.Fields(command), "a-*", "--filter", "x~y", "-l", "env=prod", "--sort", "-name", "--limit", "3")
		if got := plural(t, t.Context(), h, false, args...); got.code != ui.ExitOK {
			t.Errorf("%s: %s", command, got.errOut)
		}
		if want := "filter=" + key + `:"a-"* tag.env:"prod" x~y&limit=3&sort=-name`; len(h.asked) != 1 || h.asked[0] != want {
			t.Errorf("%s asks for %q, want %q", command, h.asked, want)
		}
	}
}

// TestPackagesArePickedAsTheHubPicks tries the same flags on what the repo has.
func TestPackagesArePickedAsTheHubPicks(t *testing.T) {
	desk := newDesk(t)
	for args, want := range map[string]string{
		"package list a*":                         "package/agent\n",
		"package list --filter ^ag policy:manual": "",
		"package list --filter ^b":                "",
		"package list --sort -name --limit 1":     "package/agent\n",
		"package outdated agent":                  "",
	} {
		if got := desk.plural(t, append(strings.Fields(args), "-o", "name")...); got.out != want {
			t.Errorf("%s: %q, %s", args, got.out, got.errOut)
		}
	}
	for args, want := range map[string]string{
		"package list nothing":             `there is no package "nothing"`,
		"package list --filter policy:low": "manual, patch, minor",
		"package list -l env=prod":         "has tags",
		"package list --sort age":          "catalog, name, package, policy",
		"package outdated nothing":         `there is no package "nothing"`,
		"package get nothing":              "plural package list",
	} {
		got := desk.plural(t, strings.Fields(args)...)
		if got.code != ui.ExitFailed || !strings.Contains(got.errOut, want) || got.out != "" {
			t.Errorf("%s: %d, %q, %s", args, got.code, got.out, got.errOut)
		}
	}
}

// auditLine is one of an audit log; examples name its hash.
const auditLine = `{"time":"2026-01-02T03:00:05Z","id":"kq4z7hjy54pw3hyww5ayyfg7zq","stage":"end","person":"ada","credential":"laptop"` +
	`,"source":"192.0.2.7","verb":"post","path":"/v1/services/web/sync","decision":"allowed","status":202,"prev":""}`

// everything are a hub's answers by path.
func everything() map[string]any {
	moment := now()
	deployment := v1.Deployment{
		Service: "web", Cluster: "edge-1", Phase: v1.Healthy, Key: "k", AppliedKey: "k", Version: "1.2.3", Objects: 3, Ready: 3,
	}
	cluster := v1.Cluster{
		Name: "edge-1", Phase: v1.Healthy, Services: 1, Ready: 1, Tags: map[string]string{"env": "prod"}, LastReport: &moment,
		AgentVersion: "0.1.0", KubernetesVersion: "v1.35.4",
	}
	service := v1.Service{
		Name: "web", Phase: v1.Healthy, Source: "podinfo", Ref: "main", Path: "apps/web", Renderer: "raw", Namespace: "web",
		Clusters: 1, Ready: 1, Commit: "0123456789",
	}
	detailed := service
	detailed.Deployments = []v1.Deployment{deployment}
	source := v1.Source{
		Name: "podinfo", Kind: "git", URL: "https://example.com/podinfo", Ref: "main", Commit: "0123456789", LastFetch: &moment, Age: 1.5,
	}
	object := v1.Object{UID: "u", Version: "v1", Kind: "Service", Resource: "services", Name: "web", Health: v1.ObjectHealthy}
	said := v1.ObjectEvent{Time: moment, Reason: "Scaled", Object: "u", Kind: "Service", Name: "web"}
	upgrade := v1.Upgrade{Installation: "agent", Package: "agent", Version: "0.1.0", State: v1.UpgradeCurrent, Policy: "manual"}
	event := v1.Event{Time: moment, Cluster: "edge-1", Service: "web", Reason: "Applied"}
	commit := v1.Commit{ID: "0123456789", Subject: "A change", Author: "ada", Time: &moment}
	counts := v1.Counts{v1.Healthy: 1}
	record := v1.AuditEntry{Replica: "hub-0", Hash: audit.Hash([]byte(auditLine))}
	_ = json.Unmarshal([]byte(auditLine), &record.Record) // it is JSON
	return map[string]any{
		"audit":        v1.AuditList{Items: []v1.AuditEntry{record}, Missing: []string{}},
		"audit/chain":  v1.AuditChunk{Replica: "hub-0", File: "audit.jsonl", Text: []byte(auditLine + "\n"), Missing: []string{}},
		"audit/people": v1.AuditPeople{Items: []v1.AuditPerson{{Person: "ada", Last: moment}}, Since: moment, Missing: []string{}},
		"status": v1.Status{
			Workspace: "demo", Commit: commit, Head: commit, Clusters: counts, Services: counts, Deployments: counts,
			Sources: []v1.Source{source},
		},
		"services/web/history":                 v1.List[v1.Revision]{Items: []v1.Revision{{Commit: commit, Result: v1.ResultCurrent}}, Total: 1},
		"summary":                              v1.Summary{Commit: commit, Head: commit, Clusters: counts, Services: counts, Deployments: counts},
		"hub":                                  v1.Hub{Version: "0.1.0", Commit: commit, Clusters: 1, Services: 1, Sources: 1},
		"clusters":                             v1.List[v1.Cluster]{Items: []v1.Cluster{cluster}, Total: 1, Counts: counts},
		"clusters/edge-1":                      v1.ClusterDetail{Cluster: cluster, Deployments: []v1.Deployment{deployment}},
		"services":                             v1.List[v1.Service]{Items: []v1.Service{service}, Total: 1, Counts: counts},
		"services/web":                         detailed,
		"deployments":                          v1.List[v1.Deployment]{Items: []v1.Deployment{deployment}, Total: 1, Counts: counts},
		"sources":                              v1.List[v1.Source]{Items: []v1.Source{source}, Total: 1},
		"sources/podinfo":                      source,
		"events":                               v1.List[v1.Event]{Items: []v1.Event{event}, Total: 1},
		"upgrades":                             v1.List[v1.Upgrade]{Items: []v1.Upgrade{upgrade}, Total: 1},
		"clusters/edge-1/services/web/objects": v1.List[v1.Object]{Items: []v1.Object{object}, Total: 1},
		"clusters/edge-1/services/web/events":  v1.List[v1.ObjectEvent]{Items: []v1.ObjectEvent{said}, Total: 1},
	}
}

func TestATreeSaysWhereItsPodsAreNotShown(t *testing.T) {
	answers := everything()
	answers["clusters/edge-1/services/web/objects"] = v1.List[v1.Object]{Items: []v1.Object{{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}}}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clusters/edge-1/objects" {
			(&recording{answers: answers}).ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(v1.Error{Message: "you may not list " + r.FormValue("resource") + " in " + r.FormValue("namespace")})
	})
	got := plural(t, t.Context(), h, false, "service", "tree", "web")
	if got.code != ui.ExitOK || !strings.Contains(got.errOut, "edge-1: pods are not shown: the hub does not let you do this: you may not list pods in shop") {
		t.Errorf("%d, %q, %q", got.code, got.out, got.errOut)
	}
}

// recording answers, and keeps the queries of requests that have one.
type recording struct {
	answers map[string]any
	asked   []string
}

func (r *recording) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if query := q.URL.Query(); query.Has("filter") {
		r.asked = append(r.asked, fmt.Sprintf("filter=%s&limit=%s&sort=%s", query.Get("filter"), query.Get("limit"), query.Get("sort")))
	}
	answer, ok := r.answers[strings.TrimPrefix(q.URL.Path, "/v1/")]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = v1.Error{Message: "no such thing"}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// desk is a person's: an installation repo, with keys and settings of their own.
type desk struct {
	repo, config string
	// terminal says that the program writes to one that shows no colors.
	terminal bool
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	d := &desk{repo: filepath.Join(dir, "fleet"), config: filepath.Join(dir, "config")}
	for name, value := range map[string]string{
		"HOME": dir, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "alice", "GIT_AUTHOR_EMAIL": "alice@localhost",
		"GIT_COMMITTER_NAME": "alice", "GIT_COMMITTER_EMAIL": "alice@localhost", "XDG_STATE_HOME": dir,
	} {
		t.Setenv(name, value)
	}
	write := func(name, text string) {
		path := filepath.Join(d.repo, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must := func(args ...string) {
		t.Helper()
		if got := d.plural(t, args...); got.code != ui.ExitOK {
			t.Fatalf("%v: %s", args, got.errOut)
		}
	}
	must("init", d.repo, "--name", "demo", "--no-seal")
	must("crypto", "init", "--name", "alice")
	write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {management: mgmt}\n")
	write("clusters/mgmt.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: mgmt}\n")
	write("access/ada.yaml", "apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: ada}\n"+
		"spec: {tokens: [{name: laptop, hash: \"sha256:"+strings.Repeat("ab", 32)+"\"}]}\n")
	must("secret", "set", "secrets/db.yaml", "password", "--yes", "--no-commit")
	must("package", "add", "agent", "--yes", "--no-commit")
	return d
}

func (d *desk) plural(t *testing.T, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	server := httptest.NewServer(&recording{answers: everything()})
	defer server.Close()
	env := map[string]string{
		"PLURAL_HUB": server.URL, "PLURAL_CONFIG_DIR": d.config, "HOME": os.Getenv("HOME"), "PLURAL_CACHE_DIR": d.config,
		"XDG_STATE_HOME": filepath.Dir(d.config),
	}
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader("hunter2"), Out: &out, ErrOut: &errOut, OutTTY: d.terminal, Width: 100}, Version: "test",
		Now: func() time.Time { return now() }, Getenv: func(name string) string { return env[name] },
	}
	if _, err := os.Stat(d.repo); err == nil {
		args = append([]string{"-C", d.repo}, args...)
	}
	code := run(t.Context(), f, "plural", args)
	return result{ui.Code(code), out.String(), errOut.String()}
}

// described is the hub's own description of what it says, held more strictly than it says: nothing may be there that it does not
// name.
type described struct{ compiler *jsonschema.Compiler }

func description(t *testing.T) *described {
	t.Helper()
	text, err := os.ReadFile("../docs/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range raw.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		if object := schema.(map[string]any); object["properties"] != nil {
			object["additionalProperties"] = false
		}
	}
	d := &described{jsonschema.NewCompiler()}
	if err := d.compiler.AddResource("openapi.json", raw); err != nil {
		t.Fatal(err)
	}
	return d
}

// holds says whether a text is JSON, and of a type, if one is named.
func (d *described) holds(t *testing.T, name, text string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil && name != "" {
		var schema *jsonschema.Schema
		if schema, err = d.compiler.Compile("openapi.json#/components/schemas/" + name); err == nil {
			err = schema.Validate(value)
		}
	}
	if err != nil {
		t.Errorf("%s: %v in %.300s", name, err, text)
	}
}
