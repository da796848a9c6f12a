package tables_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/tables"
)

var update = flag.Bool("update", false, "rewrite testdata")

var now = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	t := now.Add(-d)
	return &t
}

var all = []v1.ChangeKind{
	v1.ChangedDeployments, v1.ChangedClusters, v1.ChangedServices, v1.ChangedSources, v1.ChangedUpgrades, v1.Happened,
}

// canned is a fleet with something of everything.
func canned() model.Batch {
	var b model.Batch
	regions := []string{"ap", "eu", "us"}
	for i := range 12 {
		c := v1.Cluster{
			Name: fmt.Sprintf("edge-%s-%02d", regions[i%3], i), Phase: v1.Healthy, Services: 6, Ready: 6,
			KubernetesVersion: "v1.34.2",
			AgentVersion:      "0.3.1", LastReport: ago(time.Duration(i) * time.Second),
			Tags: map[string]string{"env": []string{"prod", "dev"}[i%2], "region": regions[i%3]},
		}
		switch i {
		case 3:
			c.Phase, c.LastReport, c.Message = v1.Stale, ago(7*time.Minute), "no report for 7 minutes"
		case 5:
			c.Phase, c.Ready, c.Message = v1.Degraded, 5, "payments: Deployment web: 1 of 3 replicas are ready"
		case 8:
			c.Phase, c.LastReport, c.KubernetesVersion, c.AgentVersion, c.Ready = v1.Unregistered, nil, "", "", 0
			c.Message = "plural cluster register edge-us-08 puts an agent into it"
		case 9:
			c.Held = &v1.Waiting{Token: "t0k3n", Count: 2}
			c.Phase = v1.Held
		}
		b.Clusters.Items = append(b.Clusters.Items, c)
		for s, name := range []string{"cert-manager", "ingress", "payments", "podinfo", "search", "zz-日本語"} {
			d := v1.Deployment{
				Cluster: c.Name, Service: name, Phase: v1.Healthy, Version: "1.2." + fmt.Sprint(s),
				Objects: 4 + s, Ready: 4 + s,
			}
			switch {
			case i == 3:
				d.Phase = v1.Stale
			case i == 5 && s == 2:
				d.Phase, d.Ready, d.Message = v1.Degraded, 5,
					"Deployment web: 1 of 3 replicas are ready: back-off pulling image registry.example.com/web:bad"
			case i == 6 && s == 2:
				d.Phase, d.Ready, d.Message = v1.Failed, 0, "values.yaml:14: \x1b[31munknown field\x1b[0m\n\"replica\""
			case i == 7 && s == 4:
				d.Phase, d.Ready, d.Version = v1.Progressing, 3, "2.0.0-rc.14+build.20260314"
			case i == 8:
				d.Phase, d.Ready = v1.Unregistered, 0
			case i == 9 && s == 0:
				d.Phase, d.Held = v1.Held, &v1.Waiting{Token: "t0k3n", Count: 2}
			case i == 10 && s == 1:
				d.Suspended = true
			}
			b.Deployments.Items = append(b.Deployments.Items, d)
		}
	}
	b.Services.Items = []v1.Service{
		{
			Name: "cert-manager", Phase: v1.Held, Source: "jetstack", Ref: ">=1.14 <2", Path: ".", Renderer: "helm",
			Namespace: "cert-manager", Clusters: 12, Ready: 11, Commit: "8f14e45fceea167a5a36dedd4bea2543",
		},
		{
			Name: "ingress", Phase: v1.Healthy, Source: ".", Path: "apps/ingress", Renderer: "kustomize", Namespace: "ingress",
			Clusters: 12, Ready: 12, Commit: "3f2c91a4d0c3bb1d6f5a91e9a6f9e9a1", Suspended: true,
		},
		{
			Name: "payments", Phase: v1.Failed, Source: ".", Path: "apps/payments", Renderer: "kustomize", Namespace: "payments",
			Clusters: 12, Ready: 10, Commit: "3f2c91a4d0c3bb1d6f5a91e9a6f9e9a1",
			Message: "edge-ap-06: values.yaml:14: unknown field",
		},
		{
			Name: "podinfo", Phase: v1.Healthy, Source: "podinfo", Ref: "6.7.0", Path: "kustomize", Renderer: "kustomize",
			Namespace: "podinfo", Clusters: 12, Ready: 12, Commit: "c81e728d9d4c2f636f067f89cc14862c",
		},
		{
			Name: "search", Phase: v1.Progressing, Source: ".", Path: "apps/search", Renderer: "raw", Namespace: "search",
			Clusters: 12, Ready: 11, Commit: "3f2c91a4d0c3bb1d6f5a91e9a6f9e9a1",
		},
		{
			Name: "zz-日本語", Phase: v1.Healthy, Source: ".", Path: "apps/zz", Renderer: "raw", Namespace: "zz", Clusters: 12,
			Ready: 12, Commit: "3f2c91a4d0c3bb1d6f5a91e9a6f9e9a1",
		},
	}
	b.Sources.Items = []v1.Source{
		{
			Name: ".", Kind: "git", URL: "https://git.example.com/fleet.git", Ref: "main",
			Commit: "3f2c91a4d0c3bb1d6f5a91e9a6f9e9a1", LastFetch: ago(41 * time.Second), Age: 41, Fetches: 900,
		},
		{
			Name: "jetstack", Kind: "helm", URL: "https://charts.jetstack.io", Commit: "8f14e45fceea167a5a36dedd4bea2543",
			LastFetch: ago(time.Hour), Age: 3700, Fetches: 40, Failures: 12,
			Error: "GET https://charts.jetstack.io/index.yaml: 503 Service Unavailable",
		},
		{
			Name: "podinfo", Kind: "git", URL: "https://github.com/stefanprodan/podinfo", Ref: "6.7.0",
			Commit: "c81e728d9d4c2f636f067f89cc14862c", LastFetch: ago(2 * time.Minute), Age: 120, Fetches: 31,
		},
		{Name: "private", Kind: "oci", URL: "oci://registry.example.com/app"},
	}
	b.Upgrades.Items = []v1.Upgrade{
		{
			Installation: "cert-manager", Package: "cert-manager", Catalog: "plural", Version: "1.14.2", Newest: "1.15.0",
			Policy: "manual", State: v1.UpgradeAvailable, Reasons: []v1.UpgradeReason{{
				Code:    v1.ReasonManual,
				Message: "upgrades are left to people", Fix: "plural package upgrade cert-manager",
			}},
		},
		{Installation: "hub", Package: "hub", Catalog: "plural", Version: "0.3.1", Policy: "minor", State: v1.UpgradeCurrent},
		{
			Installation: "monitoring", Package: "prometheus", Catalog: "oci://registry.example.com/packages", Version: "2.1.0",
			Newest: "2.2.0", Target: "2.2.0", Policy: "patch", State: v1.UpgradeBlocked,
			Reasons: []v1.UpgradeReason{{Code: v1.ReasonPolicy, Message: "the step is larger than patch"}},
		},
		{
			Installation: "redis", Package: "redis", Catalog: "plural", Version: "7.0.1", Newest: "7.0.2", Target: "7.0.2",
			Policy: "patch", State: v1.UpgradeRolling,
		},
	}
	b.Events = []v1.Event{
		{
			Time: now.Add(-3 * time.Second), Cluster: "edge-us-05", Service: "payments", Reason: "Degraded", Warning: true,
			Message: "Deployment web: 1 of 3 replicas are ready",
		},
		{
			Time: now.Add(-4 * time.Second), Cluster: "edge-us-05", Service: "payments", Reason: "Applied",
			Message: "commit 3f2c91a",
		},
		{
			Time: now.Add(-7 * time.Minute), Cluster: "edge-ap-03", Reason: "Silent", Warning: true,
			Message: "no report for three beats",
		},
		{
			Time: now.Add(-50 * time.Hour), Service: "search", Reason: "Held", Warning: true,
			Message: "a chart that cannot be fetched \u202egpj.exe",
		},
		{Time: now.Add(-51 * time.Hour), Reason: "Commit", Message: "Raise the replicas of payments"},
	}
	return b
}

// world is a console's that has the canned fleet.
func world(o paint.Options, batches ...model.Batch) *pane.World {
	clock := func() time.Time { return now }
	w := &pane.World{Context: context.Background(), Fleet: model.New(clock), Look: paint.NewLook(o), Now: clock, Source: &source{}}
	for _, b := range batches {
		w.Fleet.Apply(b)
	}
	return w
}

func live() []model.Batch {
	begin := model.Batch{State: &model.State{Link: model.Live, Since: now}}
	end := canned()
	for _, kind := range all {
		begin.Marks = append(begin.Marks, model.Mark{Kind: kind, Begin: true})
		end.Marks = append(end.Marks, model.Mark{Kind: kind, End: true})
	}
	return []model.Batch{begin, end}
}

// source remembers what was looked for.
type source struct {
	model.Source
	sought []string
}

func (s *source) Seek(kind v1.ChangeKind, filter string) {
	s.sought = append(s.sought, string(kind)+" "+filter)
}

// table is all that a pane of this package can do.
type table interface {
	pane.Pane
	pane.Pointing
	pane.Filtered
	pane.Noted
	pane.Typing
	pane.Closing
}

func open(t *testing.T, w *pane.World, name string, about pane.Subject, filter string) table {
	t.Helper()
	p, err := tables.Panes()[name](w, about, filter)
	if err != nil {
		t.Fatal(err)
	}
	made := p.(table)
	made.Init()
	return made
}

// press presses keys, with a frame after each, and gives what the last one asks the console for.
func press(p table, keys ...string) tea.Msg {
	var cmd tea.Cmd
	for _, name := range keys {
		cmd = p.Update(pressed(name))
		p.Draw(120, 12)
	}
	if cmd == nil {
		return nil
	}
	return cmd()
}

func pressed(name string) tea.Msg {
	switch name {
	case "wheel up":
		return tea.MouseWheelMsg{Button: tea.MouseWheelUp}
	case "wheel down":
		return tea.MouseWheelMsg{Button: tea.MouseWheelDown}
	}
	var k tea.KeyPressMsg
	rest, ctrl := strings.CutPrefix(name, "ctrl+")
	if ctrl {
		k.Mod, name = tea.ModCtrl, rest
	}
	for special, code := range map[string]rune{
		"enter": tea.KeyEnter, "space": tea.KeySpace, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
		"right": tea.KeyRight,
		"pgup":  tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "esc": tea.KeyEscape,
	} {
		if name == special {
			k.Code = code
			return k
		}
	}
	k.Code = rune(name[0])
	if !ctrl {
		k.Text = name
	}
	return k
}

func TestTablesAreDrawn(t *testing.T) {
	dark := paint.Options{Color: true, Dark: true}
	offline := model.Batch{State: &model.State{
		Link: model.Offline, Since: now, AsOf: now.Add(-5 * time.Minute),
		Why: "no route to the hub",
	}}
	frames := []struct {
		name          string
		width, height int
		options       paint.Options
		then          []model.Batch
		keys          []string
	}{
		{"80x24", 80, 24, paint.Options{}, nil, nil},
		{"120x40", 120, 40, paint.Options{}, nil, nil},
		{"200x60", 200, 60, paint.Options{}, nil, nil},
		{"40x10", 40, 10, paint.Options{}, nil, nil},
		{"ascii 80x24", 80, 24, paint.Options{ASCII: true}, nil, nil},
		{"dark 80x24 with marks", 80, 24, dark, nil, []string{"j", "space", "j", "space", "j"}},
		{"light 80x24", 80, 24, paint.Options{Color: true}, nil, nil},
		{"offline 80x24", 80, 24, paint.Options{}, []model.Batch{offline}, nil},
		{"sorting 80x24", 80, 24, paint.Options{}, nil, []string{"o"}},
		{"faults 80x24", 80, 24, paint.Options{}, nil, []string{"f"}},
	}
	for name := range tables.Panes() {
		t.Run(name, func(t *testing.T) {
			var got txtar.Archive
			for _, f := range frames {
				w := world(f.options, append(live(), f.then...)...)
				p := open(t, w, name, pane.Subject{}, "")
				p.Draw(f.width, f.height-4)
				press(p, f.keys...)
				text := p.Note() + "\n\n" + strings.Join(p.Draw(f.width, f.height-4), "\n") + "\n"
				got.Files = append(got.Files, txtar.File{Name: f.name, Data: []byte(strings.ReplaceAll(text, "\x1b", "␛"))})
			}
			compare(t, filepath.Join("testdata", name+".txtar"), string(txtar.Format(&got)))
		})
	}
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}

// A hub does not send a row anew for a report in which nothing is new: the one that the row has is old, and the cluster on time.
func TestAClusterThatReportsIsOnTimeHoweverOldItsRowIs(t *testing.T) {
	b := model.Batch{State: &model.State{Link: model.Live, Since: now.Add(-time.Hour)}}
	for name, phase := range map[string]v1.Phase{"well": v1.Healthy, "ill": v1.Degraded, "silent": v1.Stale} {
		b.Clusters.Items = append(b.Clusters.Items, v1.Cluster{Name: name, Phase: phase, LastReport: ago(9 * time.Minute)})
	}
	b.Clusters.Items = append(b.Clusters.Items, v1.Cluster{Name: "new", Phase: v1.Unregistered})
	w := world(paint.Options{}, b)
	p := open(t, w, "clusters", pane.Subject{}, "")
	press(p, "o", "r")
	check := func(want ...string) {
		t.Helper()
		var got []string
		for _, line := range p.Draw(120, 12)[1:] {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		for i, text := range want {
			if i >= len(got) || !strings.Contains(got[i], text) {
				t.Errorf("%q is not in line %d of\n%s", text, i, strings.Join(got, "\n"))
			}
		}
	}
	check("new ∅ unregistered 0/0 now never", "silent ◷ stale 0/0 stale 9m 9m",
		"ill ! degraded 0/0 now on time", "well ✓ healthy 0/0 now on time")
	w.Fleet.Apply(model.Batch{State: &model.State{Link: model.Broken, Since: now.Add(-4 * time.Minute)}})
	check("new", "silent ◷ stale 0/0 stale 9m 9m", "ill ! degraded 0/0 4m 4m", "well ✓ healthy 0/0 4m 4m")
}
