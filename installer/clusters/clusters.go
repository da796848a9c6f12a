// Package clusters owns the kubeconfig contexts by which a person's machine reaches clusters.
//
// It refuses to know what is asked of them. Nothing here sends a request, and nothing that is kept here is a secret.
//
// A cluster is reached by the context that the person names for it, else by the one that it was reached by before (Remember),
// else by the kubeconfig that a local fleet keeps of it, else by a context that is called like the cluster.
package clusters

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pluralsh/plural/installer/local"
)

// Locator are where ways to clusters are looked for.
type Locator struct {
	// Root is the installation repo's folder.
	Root string
	// Config is the person's own folder, where ways are remembered; empty: none are.
	Config string
	// Local is where local fleets are kept; empty: nowhere.
	Local string
	// Kubeconfig is a file with contexts; empty: those that kubectl knows.
	Kubeconfig string
	// Contexts are those that the person names, CLUSTER=CONTEXT.
	Contexts []string
}

// ContextError says that a context is not there, or cannot be what it is named for.
type ContextError struct {
	Message, Solution string
	Err               error
}

// Error says what is wrong.
func (e *ContextError) Error() string { return e.Message }

// Fix says what to do.
func (e *ContextError) Fix() string { return e.Solution }

// Unwrap is the cause, or nil.
func (e *ContextError) Unwrap() error { return e.Err }

// Reach finds those of the named clusters that this machine has a way to. A context that the person names for a cluster must be
// there, and the cluster among those that are meant.
func (w Locator) Reach(names []string) (map[string]*rest.Config, error) {
	rules, known, err := contexts(w.Kubeconfig)
	if err != nil {
		return nil, err
	}
	chosen, err := w.chosen(known, names)
	if err != nil {
		return nil, err
	}
	found := map[string]*rest.Config{}
	for _, name := range names {
		if found[name], err = w.reach(rules, known, name, chosen[name]); err != nil {
			return nil, fmt.Errorf("find the way to cluster %q: %w", name, err)
		}
		if found[name] == nil {
			delete(found, name)
		}
	}
	return found, nil
}

// reach is the way to one cluster, or nil.
func (w Locator) reach(rules *clientcmd.ClientConfigLoadingRules, known *clientcmdapi.Config, name, chosen string) (*rest.Config, error) {
	if chosen != "" {
		return configOf(rules, known, chosen)
	}
	way, err := w.remembered(name)
	if err != nil {
		return nil, err
	}
	switch {
	case way.Context == "":
	case w.Kubeconfig == "":
		return way.config(name)
	case known.Contexts[way.Context] != nil: // the person names another file now
		return configOf(rules, known, way.Context)
	}
	if w.Local != "" {
		if fleet, err := local.At(w.Root, w.Local); err == nil && exists(fleet.Kubeconfig(name)) {
			return clientcmd.BuildConfigFromFlags("", fleet.Kubeconfig(name))
		}
	}
	if known.Contexts[name] == nil {
		return nil, nil
	}
	return configOf(rules, known, name)
}

// chosen are the contexts that the person names, by cluster.
func (w Locator) chosen(known *clientcmdapi.Config, names []string) (map[string]string, error) {
	chosen := map[string]string{}
	for _, text := range w.Contexts {
		cluster, context, ok := strings.Cut(text, "=")
		switch {
		case !ok || cluster == "" || context == "":
			return nil, &ContextError{Message: fmt.Sprintf("cannot read --context %q", text), Solution: "--context CLUSTER=CONTEXT"}
		case !slices.Contains(names, cluster):
			return nil, &ContextError{
				Message:  fmt.Sprintf("--context names cluster %q, which is not looked at", cluster),
				Solution: "ls clusters/",
			}
		case known.Contexts[context] == nil:
			return nil, unknown(known, context)
		}
		chosen[cluster] = context
	}
	return chosen, nil
}

func unknown(known *clientcmdapi.Config, context string) error {
	there := slices.Sorted(maps.Keys(known.Contexts))
	solution := "one of " + strings.Join(there, ", ")
	if len(there) == 0 {
		solution = "set KUBECONFIG to a file that has it, or give --kubeconfig FILE"
	}
	return &ContextError{Message: fmt.Sprintf("no context %q in the kubeconfig", context), Solution: solution}
}

// contexts are those of a kubeconfig; the empty name: those that kubectl knows.
func contexts(kubeconfig string) (*clientcmd.ClientConfigLoadingRules, *clientcmdapi.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	known, err := rules.Load()
	if err != nil {
		return nil, nil, &ContextError{
			Message: "read kubeconfig: " + err.Error(), Solution: "see that the file is there and is a kubeconfig: kubectl config view", Err: err,
		}
	}
	return rules, known, nil
}

func configOf(rules *clientcmd.ClientConfigLoadingRules, known *clientcmdapi.Config, context string) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveClientConfig(*known, context, nil, rules).ClientConfig()
	if err != nil {
		return nil, &ContextError{
			Message: fmt.Sprintf("context %q: %v", context, err), Solution: "kubectl config view --context " + context, Err: err,
		}
	}
	return config, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
