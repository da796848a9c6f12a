package tui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/adrg/xdg"
	"golang.org/x/tools/txtar"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/workspace"
)

// asProgram has this test binary be the program that actions run.
const asProgram = "TUI_TEST_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program does what commands of this program say that they do.
func program(args []string) int {
	has := func(word string) bool { return slices.Contains(args, word) }
	switch {
	case has("search"):
		fmt.Fprint(os.Stderr, "error: services/search.yaml:4: unknown field \"clustres\"\n"+
			"  cause: \x1b[31m"+hostile+"\n  fix:   perhaps clusters\n  more:  docs/errors.md#repo-mistakes\n")
		return 1
	case has("restart"):
		fmt.Fprintln(os.Stderr, "restarted 2 objects of payments on edge-us-05")
		return 0
	case has("--dry-run"):
		fmt.Fprint(os.Stdout, "--- a/services/payments.yaml\n+++ b/services/payments.yaml\n@@ -4,6 +4,7 @@\n spec:\n   source: {path: apps/payments}\n"+
			"   namespace: payments\n+  suspend: true\n   clusters: {names: [edge-us-05, edge-ap-06]}\n"+
			"   parameters: {replicas: \"3\"} # "+strings.ReplaceAll(hostile, "\r\n", " ")+"\n")
		return 0
	}
	fmt.Fprintln(os.Stderr, "committed and pushed as 1234567")
	return 0
}

// look is a way that the console may look, at some sizes.
type look struct {
	name    string
	options paint.Options
	sizes   [][2]int
}

// inColors are the views that are looked at in colours too: those that have all that there are.
var inColors = []string{"fleet marked", "fleet filtered", "describe deployment", "yaml of a file", "diff of a deployment", "help narrowed", "ask with a diff"}

func looks() []look {
	return []look{
		{"", paint.Options{}, [][2]int{{80, 24}, {120, 40}, {200, 60}}},
		{" ascii", paint.Options{ASCII: true}, [][2]int{{80, 24}}},
		{" dark", paint.Options{Color: true, Dark: true}, [][2]int{{80, 24}}},
		{" light", paint.Options{Color: true}, [][2]int{{80, 24}}},
	}
}

// view is something to look at.
type view struct {
	name string
	// line is what it was begun with, keys are what was pressed then.
	line, keys string
	// shows are words that have to be there, whatever else is.
	shows []string
	// find is where the console finds itself; nil: at a hub, in the fleet's repo.
	find func(*place) set
	// then is what happens before it is looked at.
	then func(*stage, *hub)
}

// place is what there is to find.
type place struct {
	t    *testing.T
	now  func() time.Time
	hub  *hub
	repo *workspace.Repo
	// seen is what was seen five minutes ago; state is a folder where nothing was.
	seen *fleetcache.Store
	none *fleetcache.Store
}

func atHub(p *place) set { return set{hub: p.hub, repo: p.repo} }

func TestEveryViewIsDrawnAtEverySize(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	repo, commit := clone(t)
	dir := t.TempDir()
	seen := fleetcache.New(dir, "http://hub.example.com", "acme", "")
	remembered(t, seen, repo, commit)
	for _, v := range allViews() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			var got txtar.Archive
			for _, l := range looks() {
				if l.options.Color && !slices.Contains(inColors, v.name) {
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					h := newHub(t, committed(commit))
					p := &place{t: t, now: clock(), hub: h, repo: repo, seen: seen, none: fleetcache.New(dir, "http://nowhere.example.com", "acme", "")}
					find := v.find
					if find == nil {
						find = atHub
					}
					s := find(p)
					s.look, s.line = l.options, v.line
					if s.now == nil {
						s.now = p.now
					}
					st := open(t, s)
					st.press(v.keys)
					if v.then != nil {
						v.then(st, h)
					}
					for _, size := range l.sizes {
						text := st.screen(size[0], size[1])
						text = strings.ReplaceAll(text, "\x1b", "␛") + "\n"
						got.Files = append(got.Files, txtar.File{Name: fmt.Sprintf("%dx%d%s", size[0], size[1], l.name), Data: []byte(text)})
						if l.name == "" && size[0] == 120 {
							for _, word := range v.shows {
								if !strings.Contains(text, word) {
									t.Errorf("%q is not in\n%s", word, text)
								}
							}
						}
					}
				})
			}
			compare(t, strings.ReplaceAll(v.name, " ", "-")+".txtar", string(txtar.Format(&got)))
		})
	}
}

// committed has the newest commit be the clone's.
func committed(commit string) map[string]any {
	answers := fleet()
	first := revisions()[0]
	first.ID = commit
	rest := revisions()[1:]
	answers["/v1/history"] = list(append([]v1.Revision{first}, rest...)...)
	answers["/v1/services/payments/history"] = list(first, rest[0])
	answers["/v1/history/"+commit] = first
	return answers
}

// remembered looks at the fleet until everything is seen, and keeps it.
func remembered(t *testing.T, seen *fleetcache.Store, repo *workspace.Repo, commit string) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t, set{hub: newHub(t, committed(commit)), repo: repo, now: clock(), look: paint.Options{}})
		write := st.world.Fleet.Remember(seen)
		if write == nil {
			t.Fatal("not all is seen")
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
	})
}

func later(now func() time.Time, by time.Duration) func() time.Time {
	return func() time.Time { return now().Add(by) }
}

func allViews() []view {
	return []view{
		{name: "fleet", shows: []string{"12 clusters", "live", "edge-ap-06", "stale 7m"}},
		{name: "fleet scrolled", keys: "G<right><right>"},
		{name: "fleet of faults", keys: "f", shows: []string{"faults"}},
		{name: "fleet marked", keys: "j<space>j<space>j", shows: []string{"2 marked"}},
		{name: "fleet sorting", keys: "o"},
		{name: "fleet filtered", keys: "/@edge-us-* payments<enter>", shows: []string{"/@edge-us-* payments"}},
		{name: "fleet without a fit", keys: "/nothing-like-it<enter>", shows: []string{"no deployments fit the filter"}},
		{name: "filter typed", keys: "/health:deg"},
		{name: "filter wrong", keys: "/health:nice", shows: []string{"nice"}},
		{name: "clusters", line: "clusters", shows: []string{"edge-us-08"}},
		{name: "cluster", line: "clusters @edge-us-05", keys: "<enter>", shows: []string{"payments"}},
		{name: "services", line: "services"},
		{name: "service", line: "services payments", keys: "<enter>", shows: []string{"edge-us-05"}},
		{name: "sources", line: "sources", shows: []string{"jetstack"}},
		{name: "packages", line: "packages", shows: []string{"the step is larger than patch"}},
		{name: "events", line: "events"},
		{name: "describe deployment", line: "describe edge-us-05/payments", shows: []string{"abc123"}},
		{name: "describe cluster", line: "describe cl/edge-ap-09", shows: []string{"old-blog"}},
		{name: "describe service", line: "describe svc/payments"},
		{name: "describe source", line: "describe src/jetstack", shows: []string{"503"}},
		{name: "describe package", line: "packages monitoring", keys: "d", shows: []string{"prometheus"}},
		{name: "describe event", line: "events", keys: "d"},
		{name: "describe object", line: "tree edge-us-05/payments", keys: "jjjjjd", shows: []string{"ImagePullBackOff"}},
		{name: "describe commit", line: "history", keys: "d", shows: []string{"Raise the replicas"}},
		{name: "yaml of a file", line: "yaml svc/payments", shows: []string{"services/payments.yaml"}},
		{name: "yaml of an object", line: "tree edge-us-05/payments", keys: "jjjjjy", shows: []string{"managedFields"}},
		{name: "yaml of a package", line: "packages redis", keys: "y"},
		{name: "diff of a deployment", line: "diff edge-us-05/payments", keys: "n", shows: []string{"spec.replicas", "difference 1"}},
		{name: "diff of a service", line: "diff svc/payments"},
		{name: "diff of a package", line: "packages monitoring", keys: "D"},
		{name: "diff of a commit", line: "history", keys: "<enter>", shows: []string{`+  parameters: {replicas: "3"}`}},
		{name: "logs of a deployment", line: "logs edge-us-05/payments", shows: []string{"listening on :8080"}},
		{name: "logs of an agent", line: "logs cl/edge-us-05", shows: []string{"polled"}},
		{name: "logs of nobody", line: "logs cl/edge-us-08", find: func(p *place) set {
			p.hub.set("/v1/clusters/edge-us-08/agent/logs", refusal(404, "cluster edge-us-08 is not connected", "plural cluster register edge-us-08"))
			return atHub(p)
		}},
		{name: "tree of a deployment", line: "tree edge-us-05/payments", shows: []string{"ReplicaSet/web-7d9f"}},
		{name: "tree of a service", line: "tree svc/payments"},
		{name: "history of the fleet", line: "history", shows: []string{"undone by"}},
		{name: "history of a service", line: "history svc/payments"},
		{name: "events of a deployment", line: "happened edge-us-05/payments", shows: []string{"BackOff"}},
		{name: "events of a cluster", line: "happened cl/edge-us-05"},
		{name: "commands none", line: "fleet", keys: "@", shows: []string{"Nothing was done"}},
		{name: "commands some", line: "services payments", keys: "uyRy@", shows: []string{"plural service restart payments"}},
		{name: "command said", line: "services payments", keys: "uy@<enter>", shows: []string{"committed and pushed as 1234567"}},
		{name: "help of the fleet", keys: "?"},
		{name: "help narrowed", line: "services", keys: "?sus", shows: []string{"suspend"}},
		{name: "help of a tree", line: "tree edge-us-05/payments", keys: "?"},
		{name: "ask with a diff", line: "services payments", keys: "u", shows: []string{"+  suspend: true", "y/N"}},
		{name: "ask plainly", line: "services payments", keys: "R", shows: []string{"y/N"}},
		{name: "ask for a word", line: "services payments", keys: "<delete>pay", shows: []string{"pay"}},
		{name: "ask for a number", keys: "/-health:unregistered -service:zz-*<enter>*u", shows: []string{"suspend"}},
		{name: "ask about several", line: "services", keys: "<space>j<space>jR", shows: []string{"y/N"}},
		{name: "ask for undo", keys: "z", shows: []string{"undo"}},
		{name: "ask for agreement", line: "describe edge-us-05/payments", keys: "a", shows: []string{"service ack payments"}},
		{name: "ask for what cannot be", line: "services search", keys: "u", shows: []string{"It cannot be done"}},
		{name: "several done", line: "services", keys: "<space>j<space>Ry"},
		{name: "told", line: "services search", keys: "c", shows: []string{"copied search"}},
		{name: "told an error", line: "services search", keys: "Ry"},
		{name: "command typed", keys: ":cl", shows: []string{":cl"}},
		{name: "command completed", keys: ":describe pay<tab>", shows: []string{":describe payments"}},
		{name: "command wrong", keys: ":servces<enter>", shows: []string{"perhaps :services"}},
		{name: "preview", keys: "p", shows: []string{"describe edge-ap-06/payments", "services/payments.yaml:1:1"}},
		{name: "preview moved", line: "clusters", keys: "pj<shift+down>", shows: []string{"describe edge-us-05", "v1.35.1"}},
		{name: "preview of several", keys: "p<space>j<space>", shows: []string{"2 marked"}},
		{name: "production", line: "clusters @edge-ap-06", keys: "<enter>", shows: []string{"edge-ap-06  env=prod"}},
		{name: "view of the fleet", keys: "2", shows: []string{"/env:prod -health:healthy", "edge-us-08"}, find: withViews},
		{name: "view that nobody wrote", keys: "7", shows: []string{"no view has the key 7"}, find: withViews},
		{name: "views in the help", keys: "?production", shows: []string{"Views of this fleet", "what is wrong in production"}, find: withViews},
		{name: "views with a mistake", shows: []string{`views.yaml:5:37: unknown word "flet" in spec.views[0].list: did you mean "fleet"?`}, find: func(p *place) set {
			return set{hub: p.hub, repo: viewed(p.t, "  - {key: 1, name: all of it, list: flet}\n")}
		}},
		{name: "read only", line: "services payments", keys: "u", shows: []string{"read-only"}, find: func(p *place) set {
			return set{hub: p.hub, repo: p.repo, readOnly: true}
		}},
		{name: "offline", shows: []string{"offline, seen 5m"}, find: offline},
		{name: "offline clusters", line: "clusters", find: offline},
		{name: "offline events", line: "events", find: offline},
		{name: "offline describe", line: "describe edge-us-05/payments", find: offline},
		{name: "offline logs", line: "logs edge-us-05/payments", find: offline},
		{name: "offline never seen", find: func(p *place) set { return set{repo: p.repo, seen: p.none} }, shows: []string{"offline, never seen"}},
		{name: "hub away from the start", shows: []string{"offline, seen 5m"}, find: func(p *place) set {
			p.hub.leave()
			return set{hub: p.hub, repo: p.repo, seen: p.seen, now: later(p.now, 5*time.Minute)}
		}, then: func(s *stage, _ *hub) { s.pass(3 * time.Second) }},
		{name: "hub away since", shows: []string{"hub away 90s"}, then: func(s *stage, h *hub) {
			h.leave()
			s.pass(90 * time.Second)
		}},
		{name: "hub away and clusters", line: "clusters", shows: []string{"hub away 90s"}, then: func(s *stage, h *hub) {
			h.leave()
			s.pass(90 * time.Second)
		}},
		{name: "hub away and never seen", shows: []string{"offline, never seen"}, find: func(p *place) set {
			p.hub.leave()
			return set{hub: p.hub}
		}},
		{name: "connecting", shows: []string{"connecting"}, find: func(p *place) set {
			p.hub.set("/v1/deployments", silent)
			return set{hub: p.hub}
		}},
		{name: "empty fleet", find: func(p *place) set {
			return set{hub: newHub(p.t, map[string]any{
				"/v1/deployments": list[v1.Deployment](), "/v1/clusters": list[v1.Cluster](), "/v1/services": list[v1.Service](),
				"/v1/sources": list[v1.Source](), "/v1/upgrades": list[v1.Upgrade](), "/v1/events": list[v1.Event](),
				"/v1/me": v1.Me{Name: "ada", Operator: true}, "/v1/summary": v1.Summary{},
			})}
		}},
		{name: "not let in", find: func(p *place) set {
			p.hub.take("another")
			return set{hub: p.hub}
		}},
		{name: "logged out", shows: []string{"logged out, seen 90s ago", "L logs in", "the token is not known"}, then: func(s *stage, h *hub) {
			h.take("another")
			s.pass(90 * time.Second)
		}},
		{name: "mistakes in the repo", find: func(p *place) set { return set{repo: broken(p.t)} }},
		{name: "commit refused", find: func(p *place) set {
			summary := *fleet()["/v1/summary"].(*v1.Summary)
			summary.Head, summary.Refused, summary.Held = v1.Commit{ID: "deadbeefdeadbeef"}, 2, 1
			p.hub.set("/v1/summary", summary)
			return atHub(p)
		}, shows: []string{"commit deadbee refused"}},
	}
}

// silent never answers.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func withViews(p *place) set {
	return set{hub: p.hub, repo: viewed(p.t, "  - {key: 1, name: sources, list: sources}\n"+
		"  - {key: 2, name: what is wrong in production, list: fleet, filter: 'env:prod -health:healthy'}\n")}
}

// viewed is a clone whose people share views.
func viewed(t *testing.T, list string) *workspace.Repo {
	t.Helper()
	repo, _ := clone(t)
	text := "apiVersion: plural.sh/v1alpha1\nkind: Views\nspec:\n  views:\n" + list
	if err := os.WriteFile(filepath.Join(repo.Root(), "views.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return repo
}

func offline(p *place) set { return set{repo: p.repo, seen: p.seen, now: later(p.now, 5*time.Minute)} }

func refusal(status int, message, fix string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v1.Error{Message: message, Fix: fix})
	}
}

// broken is a clone of which one file cannot be read.
func broken(t *testing.T) *workspace.Repo {
	t.Helper()
	repo, _ := clone(t)
	if err := os.WriteFile(filepath.Join(repo.Root(), "services", "search.yaml"), []byte("kind: Servce\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return repo
}
