package cluster

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packs"
)

// clusterAt is one as origin has it.
func (w *world) clusterAt(name string) *fleet.Cluster {
	w.t.Helper()
	f, err := fleet.Load(w.pushed().FS())
	if err != nil {
		w.t.Fatal(err)
	}
	c, ok := f.Cluster(name)
	if !ok {
		w.t.Fatalf("no cluster %s", name)
	}
	return c
}

func TestANewTokenTakesThePlaceOfTheOldOneAndCanBeTakenBack(t *testing.T) {
	w := newWorld(t, false)
	keys := w.clusterAt("edge-1").Spec.Agent
	token := regexp.MustCompile(`Bearer %s' '(plural_join_[A-Za-z0-9_-]{43})'`)
	hashes := []string{}
	for range 2 {
		if err := w.plural("token", "edge-1"); err != nil {
			t.Fatal(err)
		}
		c, shown := w.clusterAt("edge-1"), token.FindStringSubmatch(w.out.String())
		if shown == nil || c.Spec.Join == nil || c.Spec.Join.Hash != fleet.HashToken(shown[1]) || c.Spec.Agent != keys {
			t.Fatalf("%+v\n%s", c.Spec, w.out)
		}
		if strings.Contains(w.errOut.String(), shown[1]) {
			t.Error("the token is on standard error")
		}
		hashes = append(hashes, c.Spec.Join.Hash)
	}
	if hashes[0] == hashes[1] {
		t.Error("the first token is still good")
	}
	if err := w.plural("token", "edge-1", "--revoke"); err != nil {
		t.Fatal(err)
	}
	if c := w.clusterAt("edge-1"); c.Spec.Join != nil || c.Spec.Agent != keys || w.out.Len() > 0 {
		t.Errorf("%+v\n%s", c.Spec, w.out)
	}
	before := w.untouched()
	if err := w.plural("token", "edge-1", "--revoke"); err != nil || !strings.Contains(w.errOut.String(), "has no join token") {
		t.Errorf("%v\n%s", err, w.errOut)
	}
	if err := w.plural("token", "edge-9"); err == nil || !strings.Contains(err.Error(), `no cluster "edge-9"`) {
		t.Errorf("%v", err)
	}
	if w.untouched() != before {
		t.Error("something changed")
	}
}

func TestAnInvitationWaitsAsABranchAndIsPrintedAllTheSame(t *testing.T) {
	w := newWorld(t, true)
	before := w.untouched()
	if err := w.plural("register", "edge-9", "--print", "--pr", "-m", "Let edge-9 join"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.out.String(), "/join/edge-9.yaml' | kubectl apply") || !strings.Contains(w.errOut.String(), "once that change is on the branch") {
		t.Errorf("%s\n%s", w.out, w.errOut)
	}
	if got := w.git(w.dir+".origin", "for-each-ref", "--format=%(subject)", "refs/heads/plural"); got != "Let edge-9 join" {
		t.Errorf("origin has %q", got)
	}
	if w.untouched() != before {
		t.Error("the clone or its branch moved")
	}
}

func TestARegistrationIsCarriedAsFarAsThePersonSays(t *testing.T) {
	w, kube := newWorld(t, false), kubetest.Start(t)
	begun := w.git(w.dir, "rev-parse", "origin/main")
	if err := w.plural("register", "edge-3", "--kubeconfig", kube.Kubeconfig, "--no-push", "-m", "Welcome edge-3"); err != nil {
		t.Fatal(err)
	}
	if got := w.git(w.dir, "log", "-1", "--format=%s"); got != "Welcome edge-3" || w.git(w.dir, "ls-remote", "origin", "main")[:40] != begun {
		t.Errorf("committed %q; pushed from %s", got, begun)
	}
	if said := w.errOut.String(); !strings.Contains(said, "+++ b/clusters/edge-3.yaml") || !strings.Contains(said, "has its keys") {
		t.Errorf("said:\n%s", said)
	}
	// A proposal that cannot be made leaves a cluster its keys: the commit of edge-3 is not pushed.
	keys, err := identity.Read(t.Context(), kube.Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	err = w.plural("register", "edge-3", "--kubeconfig", kube.Kubeconfig, "--pr")
	if err == nil || !strings.Contains(err.Error(), "would be proposed too") {
		t.Errorf("%v", err)
	}
	if after, err := identity.Read(t.Context(), kube.Dynamic); err != nil || after.Identity.Public() != keys.Identity.Public() {
		t.Errorf("the cluster has other keys: %v", err)
	}
	// The keys in the cluster are edge-3's: an agent put there for another would be turned away.
	agent := NewCmdAgentInstall(w.factory())
	agent.SilenceErrors, agent.SilenceUsage = true, true
	agent.SetArgs([]string{"edge-1", "--kubeconfig", kube.Kubeconfig})
	if err := agent.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "other keys than cluster edge-1") {
		t.Errorf("%v", err)
	}
	w.out.Reset()
	agent.SetArgs([]string{"edge-3", "--kubeconfig", kube.Kubeconfig, "--dry-run"})
	if err := agent.ExecuteContext(t.Context()); err != nil || !strings.Contains(w.out.String(), "packages/agent/") {
		t.Errorf("%v\n%s", err, w.out)
	}
	// One that is to run none is refused before it gets keys.
	agent.SetArgs([]string{"edge-4", "--kubeconfig", kube.Kubeconfig, "--dry-run", "--tag", "agent=none"})
	var told *ui.Err
	if err := agent.ExecuteContext(t.Context()); !errors.As(err, &told) || !strings.Contains(told.Cause, "agent=none") {
		t.Errorf("%v", err)
	}
	if got := w.git(w.dir, "status", "--porcelain"); got != "" {
		t.Errorf("a dry run left %q", got)
	}
}

func TestAnUpgradeOfOneClustersAgentNamesWhomElseItReaches(t *testing.T) {
	w := newWorld(t, false)
	repo, err := w.factory().Repo()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := agentsOf(repo, nil); err == nil || !strings.Contains(err.Error(), "puts agents on clusters") {
		t.Errorf("%v", err)
	}
	if err := pkg.Ensure(t.Context(), w.factory(), repo, []packs.Wanted{pkg.Agent()}, pkg.NewGiven(w.factory(), nil, "")); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct{ named, names, besides []string }{
		{nil, []string{"agent"}, nil},
		{[]string{"edge-1"}, []string{"agent"}, []string{"edge-2"}},
		{[]string{"edge-2", "edge-1"}, []string{"agent"}, nil},
	} {
		names, besides, err := agentsOf(repo, each.named)
		if err != nil || !slices.Equal(names, each.names) || !slices.Equal(besides, each.besides) {
			t.Errorf("%q: %q besides %q, %v", each.named, names, besides, err)
		}
	}
	if _, _, err := agentsOf(repo, []string{"edge-9"}); err == nil || !strings.Contains(err.Error(), `no cluster "edge-9"`) {
		t.Errorf("%v", err)
	}
	if err := w.plural("upgrade", "edge-1"); err == nil || !strings.Contains(err.Error(), "edge-2") {
		t.Errorf("edge-2 was not asked about: %v", err)
	}
	if err := w.plural("upgrade", "edge-1", "--dry-run"); err != nil || !strings.Contains(w.errOut.String(), "is that of edge-2") {
		t.Errorf("%v\n%s", err, w.errOut)
	}
}
