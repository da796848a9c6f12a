package hubsvc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/replica"
	"github.com/pluralsh/plural/internal/logring"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// startReplica starts a replica of a hub on a NATS server, until the test ends.
func startReplica(t *testing.T, nats *natsd.Server, name string, opts Options) *hub {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	opts.Cluster = &replica.Options{Name: name, NATS: "in this process", PeerListen: peers, PeerURL: peers}
	h := newHub(opts, logring.New(logLines))
	listeners, err := h.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listeners.Close)
	if err := h.build(nats); err != nil {
		t.Fatal(err)
	}
	server, err := h.server(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.run(ctx, server, listeners) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err := h.bundles.Close(); err != nil {
				t.Error(err)
			}
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the replica did not stop")
		}
	})
	return h
}

// serves says whether a replica serves a commit.
func (h *hub) serves(commit string) bool { return h.planner.Plan().Desired.Served.ID == commit }

// beside is the name of a replica that is to own an upstream, or not, beside another.
func beside(other, id string, owns bool) string {
	weight := func(name string) string {
		sum := sha256.Sum256([]byte(name + "\x00" + id))
		return string(sum[:])
	}
	for n := 1; ; n++ {
		if name := fmt.Sprintf("hub-%d", n); weight(name) > weight(other) == owns {
			return name
		}
	}
}

// While replicas turn to other keys one after the other, one that lets everybody's commits in stands beside one that does not.
func TestReplicasThatBelieveOthersTakeNothingOfEachOthersMirrors(t *testing.T) {
	for what, owns := range map[string]bool{"it follows": false, "it comes to own": true} {
		t.Run(what, func(t *testing.T) {
			ann := fleetrepo.SigningKey(t, "ann")
			o := fleetrepo.New(t)
			unsigned := o.Push(fleetrepo.TwoServices(nil))
			nats, err := natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nats.Close)
			trusting := startReplica(t, nats, "hub-0", options(t, o))
			fleetrepo.Until(t, "everybody's commits are served", func() bool { return trusting.serves(unsigned) })

			opts := options(t, o)
			opts.RepoKeys = [][]byte{readFile(t, ann+".pub")}
			id := trusting.sources.Own().ID
			verifying := startReplica(t, nats, beside("hub-0", id, owns), opts)
			fleetrepo.Until(t, "the new replica has its part", func() bool {
				role, _ := verifying.replica.Role(id)
				return role == gitpoller.Own && owns || role == gitpoller.Follow && !owns
			})
			fleetrepo.Until(t, "it looks at the commit, and refuses it", func() bool {
				return strings.Contains(verifying.mirrors.Status(id).LastError, "not signed")
			})
			if _, err := verifying.mirrors.At(id, unsigned); err == nil || verifying.serves(unsigned) {
				t.Errorf("it has a commit that nobody signed: %+v", verifying.mirrors.Status(id))
			}

			o.SignBy(ann)
			signed := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "signed")})
			fleetrepo.Until(t, "both serve what is signed", func() bool { return verifying.serves(signed) && trusting.serves(signed) })
		})
	}
}
