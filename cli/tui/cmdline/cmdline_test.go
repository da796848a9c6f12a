package cmdline_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/cmdline"
	"github.com/pluralsh/plural/cli/tui/guide"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/pane"
)

func world() *pane.World {
	f := model.New(time.Now)
	b := model.Batch{}
	for _, kind := range []v1.ChangeKind{v1.ChangedDeployments, v1.ChangedClusters, v1.ChangedServices, v1.ChangedSources} {
		b.Marks = append(b.Marks, model.Mark{Kind: kind, Begin: true, End: true})
	}
	b.Clusters.Items = []v1.Cluster{{Name: "prod-eu", Held: &v1.Waiting{Token: "t0ken"}}, {Name: "prod-us"}, {Name: "edge-1"}}
	b.Services.Items = []v1.Service{{Name: "web", Phase: v1.Healthy, Suspended: true}, {Name: "web-admin"}, {Name: "edge-1"}}
	b.Sources.Items = []v1.Source{{Name: "podinfo"}}
	b.Deployments.Items = []v1.Deployment{{Cluster: "prod-eu", Service: "web", Phase: v1.Failed}}
	f.Apply(b)
	return &pane.World{Fleet: f}
}

func TestALineIsRead(t *testing.T) {
	for line, want := range map[string]tea.Msg{
		"":                    nil,
		"   ":                 nil,
		"q":                   tea.QuitMsg{},
		"quit":                tea.QuitMsg{},
		"help":                guide.Press{Key: "?"},
		"cl":                  pane.Open{Pane: "clusters"},
		"CL":                  pane.Open{Pane: "clusters"},
		"cl prod-*":           pane.Open{Pane: "clusters", Filter: "@prod-*"},
		"cl health:stale":     pane.Open{Pane: "clusters", Filter: "health:stale"},
		"svc web":             pane.Open{Pane: "services", Filter: "web"},
		"svc  web  env:prod ": pane.Open{Pane: "services", Filter: "web  env:prod"},
		"up":                  pane.Open{Pane: "packages"},
		"@prod-*":             pane.Open{Pane: "fleet", Filter: "@prod-*"},
		"@prod-* web":         pane.Open{Pane: "fleet", Filter: "@prod-* web"},
		"pods":                pane.Open{Pane: "objects", About: pane.Subject{Name: "pods"}},
		"Deploy @prod-* web":  pane.Open{Pane: "objects", About: pane.Subject{Name: "deploy"}, Filter: "@prod-* web"},
		"get services web":    pane.Open{Pane: "objects", About: pane.Subject{Name: "services"}, Filter: "web"},
		"widgets.example.com": pane.Open{Pane: "objects", About: pane.Subject{Name: "widgets.example.com"}},
		"fleet @prod-* web":   pane.Open{Pane: "fleet", Filter: "@prod-* web"},
		"history":             pane.Open{Pane: "history", About: pane.Subject{Kind: pane.KindFleet}},
		"history web": pane.Open{
			Pane:  "history",
			About: pane.Subject{Kind: pane.KindService, Name: "web", Service: "web", Phase: v1.Healthy, Suspended: true},
		},
		"describe prod-eu": pane.Open{
			Pane:  "describe",
			About: pane.Subject{Kind: pane.KindCluster, Name: "prod-eu", Cluster: "prod-eu", Token: "t0ken"},
		},
		"describe edge-1": pane.Open{
			Pane:  "describe",
			About: pane.Subject{Kind: pane.KindService, Name: "edge-1", Service: "edge-1"},
		},
		"describe cl/edge-1": pane.Open{
			Pane:  "describe",
			About: pane.Subject{Kind: pane.KindCluster, Name: "edge-1", Cluster: "edge-1"},
		},
		"yaml podinfo": pane.Open{Pane: "yaml", About: pane.Subject{Kind: pane.KindSource, Name: "podinfo"}},
		"logs svc/web": pane.Open{
			Pane:  "logs",
			About: pane.Subject{Kind: pane.KindService, Name: "web", Service: "web", Phase: v1.Healthy, Suspended: true},
		},
		"diff prod-eu/web": pane.Open{
			Pane:  "diff",
			About: pane.Subject{Kind: pane.KindDeployment, Name: "web", Cluster: "prod-eu", Service: "web", Phase: v1.Failed},
		},
		"commands": pane.Open{Pane: "commands"},
	} {
		got, err := cmdline.Parse(line, world())
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

func TestALineThatSaysNothingNamesTheNearestWord(t *testing.T) {
	for line, want := range map[string]string{
		"clutsers":              `there is no view "clutsers"; perhaps :clusters`,
		"svcs":                  `there is no view "svcs"; perhaps :svc`,
		"zzzzzz":                `there is no view "zzzzzz"`,
		"yaml":                  "yaml of what?; name a service, a cluster, or CLUSTER/SERVICE: :yaml web",
		"describe web api":      "one name at a time",
		"describe wen":          `there is no service or cluster "wen"; perhaps :describe web`,
		"tree prod-us/web":      `there is no deployment "prod-us/web"`,
		"logs ev/x":             "there is no view of one of events",
		"quit now":              ":quit takes nothing behind it",
		strings.Repeat("ä", 99): `there is no view "` + strings.Repeat("ä", 40) + `..."`,
	} {
		_, err := cmdline.Parse(line, world())
		var refused *cmdline.Error
		if !errors.As(err, &refused) || err.Error() != want {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
}

func TestWhatIsNotKnownYetIsTakenAtItsWord(t *testing.T) {
	got, err := cmdline.Parse("history web", &pane.World{Fleet: model.New(time.Now)})
	want := pane.Open{Pane: "history", About: pane.Subject{Kind: pane.KindService, Name: "web", Service: "web"}}
	if diff := cmp.Diff(tea.Msg(want), got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestTheLastWordIsCompleted(t *testing.T) {
	for line, want := range map[string][]string{
		"so":           {"sources", "source"},
		"cl":           {"clusters", "cl", "cluster", "clusterroles", "clusterrolebindings"},
		"dep":          {"deployments", "deploy", "deployment"},
		"get po":       {"pods", "poddisruptionbudgets", "po", "pod"},
		"get pods po":  nil,
		"cl ":          {"edge-1", "prod-eu", "prod-us"},
		"cl p":         {"prod-eu", "prod-us"},
		"svc WEB":      {"web", "web-admin"},
		"src ":         {"podinfo"},
		"history e":    {"edge-1"},
		"@prod":        {"@prod-eu", "@prod-us"},
		"fleet @prod":  {"@prod-eu", "@prod-us"},
		"commands w":   nil,
		"nothing w":    nil,
		"describe zzz": nil,
	} {
		if diff := cmp.Diff(want, cmdline.Words(line, world())); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
	}
}

func FuzzALineIsReadOrRefused(f *testing.F) {
	for _, line := range []string{"cl prod-*", "@x y", "describe svc/web", "q", "history a/b/c", "\xff \x00"} {
		f.Add(line)
	}
	w := world()
	f.Fuzz(func(t *testing.T, line string) {
		_, err := cmdline.Parse(line, w)
		var refused *cmdline.Error
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %v", line, err)
		}
		for _, word := range cmdline.Words(line, w) {
			if !strings.HasPrefix(strings.ToLower(word), strings.ToLower(line[strings.LastIndexByte(line, ' ')+1:])) {
				t.Errorf("%q is completed by %q", line, word)
			}
		}
	})
}
