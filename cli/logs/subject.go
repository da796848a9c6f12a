package logs

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/logstream"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/paging"
)

// maxNear is how many services, and how many clusters, are offered in the place of a name that is none.
const maxNear = 5

// subject is whose logs a word means: hub, agent/CLUSTER, svc/NAME, or a name alone.
func subject(ctx context.Context, hub *client.Client, word string) (logstream.Of, error) {
	kind, name, named := strings.Cut(word, "/")
	switch {
	case word == "hub":
		return logstream.Of{Hub: true}, nil
	case named && kind == "agent" && name != "":
		return logstream.Of{Agent: name}, nil
	case named && (kind == "svc" || kind == "service") && name != "":
		return logstream.Of{Service: name}, nil
	case named || word == "":
		return logstream.Of{}, &ui.Err{Msg: fmt.Sprintf("logs of %q?", word), Fix: "plural logs NAME, svc/NAME, agent/CLUSTER or hub"}
	}
	exact, err := fitting(ctx, hub, "name:"+strconv.Quote(word))
	if err != nil {
		return logstream.Of{}, err
	}
	switch len(exact) {
	case 1:
		return subject(ctx, hub, exact[0])
	case 2:
		return logstream.Of{}, &ui.Err{
			Msg: fmt.Sprintf("%q is a service and a cluster", word), Fix: commands(exact), Doc: ui.DocUsage,
		}
	}
	near, err := fitting(ctx, hub, "name~"+strconv.Quote(word))
	if err != nil {
		return logstream.Of{}, err
	}
	told := &ui.Err{Msg: fmt.Sprintf("there is no service %q", word), Fix: "plural service list", Doc: ui.DocNotFound}
	if len(near) > 0 {
		told.Fix = commands(near)
	}
	return logstream.Of{}, told
}

// fitting are the services and clusters that a filter picks, as words that mean one of them.
func fitting(ctx context.Context, hub *client.Client, filter string) ([]string, error) {
	q := paging.Query{Filter: filter, Limit: maxNear}
	services, err := hub.ServicesPage(ctx, q)
	if err != nil {
		return nil, err
	}
	clusters, err := hub.ClustersPage(ctx, q)
	if err != nil {
		return nil, err
	}
	words := named(services.Items, func(s v1.Service) string { return "svc/" + s.Name })
	return append(words, named(clusters.Items, func(c v1.Cluster) string { return "agent/" + c.Name })...), nil
}

func named[T any](items []T, word func(T) string) []string {
	var words []string
	for _, item := range items {
		words = append(words, word(item))
	}
	return words
}

// commands reads the log of each of them.
func commands(words []string) string { return "plural logs " + strings.Join(words, "\nplural logs ") }
