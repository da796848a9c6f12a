package hubsvc

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// figure is a metric's value; ok is false when there is none.
func (r *running) figure(name string) (value float64, ok bool) {
	r.t.Helper()
	_, text := r.do(http.MethodGet, "/metrics", r.token, nil)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(text)
	if found == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return value, true
}

func TestAgesCountFromTheLastFetchThatBroughtEverything(t *testing.T) {
	for name, breakIt := range map[string]func(*fleetrepo.Origin) (mend func()){
		"a host that is away": func(o *fleetrepo.Origin) func() { return o.Away() },
		"a branch that is no more": func(o *fleetrepo.Origin) func() {
			o.Git(o.Bare, "update-ref", "refs/heads/kept", "main")
			o.Git(o.Bare, "update-ref", "-d", "refs/heads/main")
			return func() { o.Git(o.Bare, "update-ref", "refs/heads/main", "kept") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			upstream, o := fleetrepo.New(t), fleetrepo.New(t)
			upstream.Push(map[string]string{"app/cm.yaml": fleetrepo.ConfigMap("app", "1"), "README.md": "x"})
			fleet := fleetrepo.TwoServices(nil)
			fleet["sources/up.yaml"] = fleetrepo.Header + "kind: Source\nmetadata: {name: up}\nspec: {git: {url: \"" + upstream.URL() +
				"\", ref: main}, interval: 1s}\n"
			fleet["services/app.yaml"] = fleetrepo.Service("app", "  source: {name: up, path: app}\n")
			o.Push(fleet)
			hub := start(t, options(t, o))
			fleetrepo.Until(t, "the source is fetched", func() bool { return hub.listed("up").Commit != "" && hub.held() == "" })
			mend := breakIt(upstream)
			fleetrepo.Until(t, "it has failed several times", func() bool { return hub.listed("up").InARow >= 2 })
			failing := hub.listed("up")
			if failing.LastFetch == nil || failing.FailingSince == nil || !failing.LastFetch.Before(*failing.FailingSince) || failing.Error == "" ||
				failing.NextAttempt == nil || failing.Commit == "" {
				t.Errorf("the source is %+v", failing)
			}
			if want := time.Since(*failing.FailingSince).Seconds(); failing.Age < want-5 || failing.Age < 1 {
				t.Errorf("age %f after failing for %f seconds", failing.Age, want)
			}
			since, _ := hub.figure(`plural_hub_upstream_failing_seconds{source="up"}`)
			age, _ := hub.figure(`plural_hub_upstream_age_seconds{source="up"}`)
			if since <= 0 || age < since {
				t.Errorf("figures: age %f, failing for %f", age, since)
			}
			if own, _ := hub.figure(`plural_hub_upstream_failing_seconds{source="."}`); own != 0 {
				t.Errorf("the installation repo is said to fail for %f", own)
			}
			mend()
			fleetrepo.Until(t, "it is well again", func() bool { s := hub.listed("up"); return s.Error == "" && s.FailingSince == nil && s.InARow == 0 })
			if s := hub.listed("up"); s.NextAttempt != nil || !s.LastFetch.After(*failing.LastFetch) {
				t.Errorf("the source is %+v", s)
			}
		})
	}
}

func TestTheTimeOfTheLastGoodFetchOutlivesARestart(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	opts := options(t, o)
	hub := start(t, opts)
	hub.ready()
	was := *hub.listed(".").LastFetch
	hub.stop()
	defer o.Away()()
	hub = start(t, opts)
	fleetrepo.Until(t, "the repo is seen to be away", func() bool { return hub.listed(".").Error != "" })
	source := hub.listed(".")
	if source.LastFetch == nil || source.LastFetch.Before(was.Add(-time.Minute)) || !source.LastFetch.Before(*source.FailingSince) {
		t.Errorf("fetched %v before the restart; after it the source is %+v", was, source)
	}
	if !strings.Contains(source.Error, "origin.git") {
		t.Errorf("error %q", source.Error)
	}
}
