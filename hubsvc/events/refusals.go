package events

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/addrlimit"
)

// refusals tell people of agents that the hub does not take for who they say they are. The agents themselves learn only that.
type refusals struct {
	total *prometheus.CounterVec
	// logged is by address; told, for events, by cluster, and all that are none together: anybody can make names up.
	logged, told *addrlimit.Limits
}

// The log has one line of an address in a while, and a cluster one event.
const (
	logRefusalEach  = time.Minute
	tellRefusalEach = 10 * time.Minute
)

func newRefusals(registry prometheus.Registerer) *refusals {
	r := &refusals{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_agents_refused_total", Help: "Requests of agents that were refused, by why.",
		}, []string{"reason"}),
		logged: addrlimit.New(1, logRefusalEach, time.Now), told: addrlimit.New(1, tellRefusalEach, time.Now),
	}
	registry.MustRegister(r.total)
	return r
}

// Reasons beside those of package token.
const (
	noToken   token.Reason = "no token"
	elsewhere token.Reason = "other connection"
)

// AgentRefused takes in that the hub does not take an agent for who it says it is.
func (h *Events) AgentRefused(address string, err error) {
	why := &token.Refusal{Reason: noToken}
	if errors.Is(err, token.ErrElsewhere) {
		why.Reason = elsewhere
	}
	errors.As(err, &why)
	h.refusals.total.WithLabelValues(string(why.Reason)).Inc()
	if why.Reason == noToken || why.Reason == elsewhere { // anybody, and an agent that goes on to show another token
		return
	}
	if h.refusals.logged.Allow(address) {
		h.Log.Warn("agent refused", "address", address, "cluster", clipped(why.Cluster), "reason", string(why.Reason))
	}
	cluster := ""
	if h.Known(why.Cluster) {
		cluster = why.Cluster
	}
	if !h.refusals.told.Allow(cluster) {
		return
	}
	message, fix := explain(why, address)
	h.Notices.note(view.AgentRefused+"/"+cluster, notice(view.AgentRefused, message, fix))
	h.Happened(cluster, &tunnelapi.Event{
		Reason: view.AgentRefused, Warning: true, UnixMs: time.Now().UnixMilli(), Message: message + "; " + fix,
	})
}

// clipped is a name that anybody may have made up.
func clipped(name string) string {
	const most = 63
	return fmt.Sprintf("%q", name[:min(len(name), most)])
}

// explain says in people's words why an agent is refused, and what helps.
func explain(why *token.Refusal, address string) (message, fix string) {
	message = fmt.Sprintf("the hub refuses an agent at %s that says it is of cluster %s: ", address, clipped(why.Cluster))
	switch why.Reason {
	case token.NoKey:
		return message + "the fleet has no such cluster, or no agent of it",
			"register it with plural cluster register, or remove the agent there"
	case token.OtherKey:
		return message + "its key is another than the one in the cluster's file",
			"register the cluster anew with plural cluster register, or find out who has that name"
	case token.OtherHub:
		return message + "it takes the hub for one of another URL", "start it with the URL that spec.hub.url of plural.yaml, or the hub's --url, has"
	case token.Clock:
		return message + fmt.Sprintf("its clock and the hub's are more than %s apart", token.Leeway), "set both by NTP"
	}
	return message + "what it shows is no token of an agent", "see which program asks the hub there"
}
