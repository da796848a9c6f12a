package scale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/model"
	hubapi "github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// varied is a fleet in which everything that a filter can ask for is there and elsewhere is not.
func varied() view.Options {
	now := time.Now()
	d := &view.Desired{Served: v1.Commit{ID: "c1"}, Head: v1.Commit{ID: "c1"}, Deployments: map[string][]*resolve.Deployment{}}
	services := []string{"api", "db", "web", "web-db", "z-search"}
	reports := map[string]*api.Report{}
	for i, name := range services {
		s := fleet.Service{Metadata: fleet.Metadata{Name: name}}
		s.Spec.Namespace, s.Spec.Source, s.Spec.Renderer = "ns-"+name[:1], fleet.SourceRef{Name: []string{"", "charts"}[i%2], Ref: "v" + name}, "helm"
		d.Fleet.Services = append(d.Fleet.Services, s)
	}
	agentPhases := []api.Phase{api.Phase_HEALTHY, api.Phase_PROGRESSING, api.Phase_DEGRADED, api.Phase_FAILED}
	for i := range 24 {
		c := fleet.Cluster{Metadata: fleet.Metadata{Name: fmt.Sprintf("%s-%02d", []string{"prod-eu", "prod-us", "dev"}[i%3], i)}}
		name := c.Metadata.Name
		if i%8 != 7 {
			c.Spec.Agent.Auth = "ed25519:key"
		}
		c.Spec.Tags = map[string]string{"env": []string{"prod", "dev"}[i%2], "health": "tagged"}
		if i%5 == 0 {
			c.Spec.Tags["tier"] = "Gold one"
		}
		d.Fleet.Clusters = append(d.Fleet.Clusters, c)
		r := &api.Report{AgentVersion: fmt.Sprintf("v0.%d.0", i%3), KubernetesVersion: fmt.Sprintf("v1.3%d.1", i%2), ReceivedUnixMs: now.UnixMilli()}
		if i%6 == 5 {
			r.ReceivedUnixMs = now.Add(-2 * time.Hour).UnixMilli()
		}
		for j, service := range services {
			if (i+j)%4 != 3 {
				w := &resolve.Deployment{
					Service: service, Key: fmt.Sprintf("key-%d", j%2), Namespace: "ns-" + service[:1], Version: []string{"1.2.3", "", "2.0.0"}[j%3],
					Source: []string{"", "charts"}[j%2],
				}
				w.Suspended = (i+j)%7 == 0
				if (i+j)%11 == 0 {
					w.Key, w.Hold = "", &resolve.Problem{Service: service, Message: "cannot be resolved"}
				}
				d.Deployments[name] = append(d.Deployments[name], w)
			} else if i%2 == 0 {
				continue // neither asked for nor there
			}
			said := &api.ServiceReport{
				Service: service, Key: "key-0", AppliedKey: "key-0", Phase: agentPhases[(i*3+j)%4], Objects: uint32(3 + i%4), Ready: uint32(i % 4),
			}
			if said.Phase != api.Phase_HEALTHY {
				said.Message = fmt.Sprintf("Deployment %s: no Image of it, \"really\"", service)
			}
			r.Services = append(r.Services, said)
		}
		if i%9 != 8 {
			reports[name] = r
		}
	}
	slices.SortFunc(d.Fleet.Clusters, func(a, b fleet.Cluster) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return view.Options{
		Desired: func() *view.Desired { return d }, Now: time.Now, StaleAfter: time.Hour,
		Sources: func() []v1.Source {
			return []v1.Source{
				{Name: ".", Kind: "git", URL: "https://git.example.com/fleet", Ref: "main", Age: 3},
				{Name: "charts", Kind: "helm", URL: "https://charts.example.com", Age: 60, Failures: 2, Error: "no answer", Owner: "hub-1"},
			}
		},
		Upgrades: func() []v1.Upgrade {
			return []v1.Upgrade{
				{Installation: "certs", Package: "cert-manager", Catalog: "main", Version: "1.0.0", State: v1.UpgradeCurrent, Policy: fleet.UpgradeManual},
				{
					Installation: "ingress", Package: "nginx", Catalog: "own", Version: "1.0.0", Target: "1.1.0", State: v1.UpgradeWaiting, Policy: fleet.UpgradeMinor,
					Reasons: []v1.UpgradeReason{{Code: v1.ReasonWindow}},
				},
			}
		},
		Report: func(cluster string) (*api.Report, bool) {
			r, ok := reports[cluster]
			return r, ok
		},
		Received: func(cluster string) (int64, bool) {
			r, ok := reports[cluster]
			return r.GetReceivedUnixMs(), ok
		},
	}
}

// consoleOf is what a console knows of a hub with this view.
func consoleOf(t *testing.T, v *view.View) (*model.Fleet, *client.Client) {
	t.Helper()
	mux := http.NewServeMux()
	hubapi.New(hubapi.Options{
		View: v, Sources: v.Sources, Now: time.Now,
		Allow: func(*http.Request, string) (principal.Person, error) { return principal.Person{Name: "ann"}, nil },
		Follow: func(since string, kinds []v1.ChangeKind, _ []string, filters func(v1.ChangeKind) string) (hubapi.Follower, error) {
			return v.Follow(since, kinds, filters)
		},
	}).Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c, err := client.New(server.URL, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	f := model.New(time.Now)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = model.FromHub(c, model.Options{Now: time.Now}).Run(ctx, func(b model.Batch) {
		f.Apply(b)
		if f.Deployments.Whole() && f.Clusters.Whole() && f.Services.Whole() && f.Sources.Whole() && f.Upgrades.Whole() && f.Events.Whole() {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return f, c
}

// terms are a filter for each thing that can be asked of a field, for values that it may have.
func terms(key string, values ...string) []string {
	all := []string{key + ":", "!" + key + ":"}
	for _, value := range values {
		all = append(all, key+`:"`+value+`"`, "!"+key+`:"`+value+`"`, key+`~"`+value[:1]+`"`, key+":"+value[:1]+"*", key+":*"+value[len(value)-1:])
	}
	return all
}

// TestConsolePicksAndSortsAsTheHubDoes gives every filter and every order to the hub and to what a console knows of it.
func TestConsolePicksAndSortsAsTheHubDoes(t *testing.T) {
	v := view.New(varied())
	f, hub := consoleOf(t, v)
	if f.Deployments.Len() < 80 || f.Summary.Deployments.Total() != f.Deployments.Len() {
		t.Fatalf("%d rows, and the hub counts %v", f.Deployments.Len(), f.Summary.Deployments)
	}
	names := []string{"we", "WEB", "-prod", "!eu web", "w*b", "^web$", "/b-?/", "-f pd5", "a|z", `"b"`}
	tags := append(terms("env", "prod"), "tier:", "tag.health:tagged", "tier:gold*", "-l env=prod,tier", "-l env!=prod", "@prod-*", "!@dev-02")
	phases := terms("health", v1.Phase("").Words()...)
	phases = append(phases[2:], "phase:held,stale") // one is always there
	t.Run("deployments", func(t *testing.T) {
		filters := slices.Concat(names, tags, phases, terms("cluster", "prod-eu-00"), terms("service", "web"), terms("namespace", "ns-w"), terms("source", ".", "charts"),
			terms("version", "1.2.3"), terms("suspended", "true", "false")[2:], terms("message", "its cluster is silent", "Deployment web: no Image of it"),
			[]string{"web health:degraded,failed env:prod !suspended:true"})
		agree(t, f.Deployments, filters, "", func(d v1.Deployment) string { return d.Cluster + "/" + d.Service }, hub.DeploymentsPage)
	})
	t.Run("clusters", func(t *testing.T) {
		filters := slices.Concat(names, tags, phases, terms("name", "prod-eu-00"), terms("cluster", "prod-eu-00"), terms("kubernetes", "v1.30.1"), terms("agent", "v0.1.0"),
			terms("message", "its agent has not reported yet"))
		agree(t, f.Clusters, filters, "reported", func(c v1.Cluster) string { return c.Name }, hub.ClustersPage)
	})
	t.Run("services", func(t *testing.T) {
		filters := slices.Concat(names, phases, terms("name", "web"), terms("service", "web"), terms("source", ".", "charts"), terms("ref", "vweb"),
			terms("namespace", "ns-w"), terms("renderer", "helm"), terms("message", "its cluster is silent"))
		agree(t, f.Services, filters, "", func(s v1.Service) string { return s.Name }, hub.ServicesPage)
	})
	t.Run("sources", func(t *testing.T) {
		filters := slices.Concat(names, terms("name", ".", "charts"), terms("source", "charts"), terms("kind", "git"), terms("url", "https://charts.example.com"),
			terms("ref", "main"), terms("owner", "hub-1"), terms("error", "no answer"))
		agree(t, f.Sources, filters, "", func(s v1.Source) string { return s.Name }, hub.SourcesPage)
	})
	t.Run("upgrades", func(t *testing.T) {
		filters := slices.Concat(names, terms("installation", "certs"), terms("name", "certs"), terms("package", "nginx"), terms("catalog", "own"), terms("version", "1.0.0"),
			terms("target", "1.1.0"), terms("policy", "minor")[2:], terms("state", "current", "waiting")[2:], terms("reason", "window"))
		agree(t, f.Upgrades, filters, "", func(u v1.Upgrade) string { return u.Installation }, func(_ context.Context, q paging.Query) (*v1.List[v1.Upgrade], error) {
			return v.ListUpgrades(q)
		})
	})
	if _, columns := hubKeys(t, hub.EventsPage); !slices.Equal(columns, slices.DeleteFunc(f.Events.Columns(), func(c string) bool { return c == "age" })) {
		t.Errorf("events are sorted by %v, and by the hub by %v", f.Events.Columns(), columns)
	}
}

type asking[T any] = func(context.Context, paging.Query) (*v1.List[T], error)

// agree compares a list's views with the hub's own answers. Orders by the names in differs are not compared: they are of times.
func agree[R, T any](t *testing.T, list *model.List[R], filters []string, differs string, id func(T) string, page asking[T]) {
	t.Helper()
	compare := func(v *model.View[R], q paging.Query) {
		t.Helper()
		var want, got []string
		q.Limit = 50
		for item, err := range client.All(t.Context(), page, q) {
			if err != nil {
				t.Fatalf("%+v: the hub says %v", q, err)
			}
			want = append(want, id(item))
		}
		for i := range v.Len() {
			got = append(got, v.ID(i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-hub +console):\n%s", q, diff)
		}
	}
	v := list.View()
	for _, text := range filters {
		if err := v.Filter(text); err != nil {
			t.Fatalf("the console says %v", err)
		}
		compare(v, paging.Query{Filter: text})
	}
	for key := range maps.Keys(list.Schema().Fields) {
		if key != "phase" && !slices.ContainsFunc(filters, func(text string) bool { return strings.HasPrefix(text, key+":") }) {
			t.Errorf("no filter tries %s", key)
		}
	}
	_ = v.Filter("")
	keys, columns := hubKeys(t, page)
	if keys != nil && !slices.Equal(keys, slices.Sorted(maps.Keys(list.Schema().Fields))) {
		t.Errorf("the hub's keys are %v", keys)
	}
	for _, column := range columns {
		for down, sort := range map[bool]string{false: column, true: "-" + column} {
			if err := v.Sort(column, down); err != nil {
				t.Errorf("the hub has a column that the console has not: %v", err)
			} else if column != differs {
				compare(v, paging.Query{Sort: sort})
			}
		}
	}
}

// hubKeys are what the hub says there is to filter and to sort by, when it is asked for what there is not. Lists of what has tags know
// every key.
func hubKeys[T any](t *testing.T, page asking[T]) (keys, columns []string) {
	t.Helper()
	told := func(q paging.Query, before string) []string {
		_, err := page(t.Context(), q)
		fix := ""
		if answer := (*client.Error)(nil); errors.As(err, &answer) {
			fix = answer.Fix
		} else if wrong := (*filter.Error)(nil); errors.As(err, &wrong) {
			fix = wrong.Fix
		} else if wrong := (*paging.Error)(nil); errors.As(err, &wrong) {
			fix = wrong.Fix
		}
		list, ok := strings.CutPrefix(fix, before)
		if !ok {
			return nil
		}
		return strings.Split(list, ", ")
	}
	return told(paging.Query{Filter: "nonsense:x"}, "the keys are "), told(paging.Query{Sort: "nonsense"}, "the columns are ")
}
