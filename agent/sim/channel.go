package sim

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// listen keeps the reverse channel open until ctx ends. What is hinted over it is followed by a poll; who asks for the cluster
// itself is told that there is none.
func (a *agent) listen(ctx context.Context, first time.Time) {
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	version := a.swarm.options.Version
	_ = tunnel.Run(ctx, tunnel.Options{ // its options are those that the polls go by
		URL: a.swarm.options.URL, CA: a.swarm.options.CA, Token: a.signer.Token, Prove: a.signer.Prove,
		UserAgent: a.swarm.userAgent(), Dial: a.line.dial,
		Hello: func() *tunnelapi.Hello {
			return &tunnelapi.Hello{
				Cluster: a.cluster, ClusterUid: a.cluster, Host: "simulated", Boot: a.boot, AgentVersion: version, KubernetesVersion: kubernetes,
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "this cluster is simulated: it has no API server", http.StatusServiceUnavailable)
		}),
		Changed: func(string) { a.hurry() }, Sync: func([]string) { a.hurry() }, Log: slog.New(slog.DiscardHandler),
	})
}

// hurry lets the agent poll now.
func (a *agent) hurry() {
	select {
	case a.wake <- struct{}{}:
	default: // it is awake already
	}
}
