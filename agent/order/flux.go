package order

import (
	"slices"
	"strings"
)

// readFlux reads the words of Flux that say how an object is applied and deleted.
func (r *reader) readFlux(turn *Turn) opinion {
	if r.fluxSays("prune", "enabled", "disabled")["disabled"] {
		turn.NoPrune, turn.Keep = true, true // its finalizer prunes by the same rule
	}
	if r.fluxSays("reconcile", "enabled", "disabled")["disabled"] {
		turn.Pause = true
	}
	policy := r.fluxSays("ssa", "override", "merge", "ifnotpresent", "ignore")
	turn.Merge = turn.Merge || policy["merge"]
	turn.Once = turn.Once || policy["ifnotpresent"]
	turn.Pause = turn.Pause || policy["ignore"]
	switch force := r.fluxSays("force", "enabled", "disabled"); {
	case force["disabled"]:
		return forbidden
	case force["enabled"]:
		return allowed
	}
	return silent
}

// fluxSays reads an annotation and the label of the same name, as Flux does, in any case of letters. Both count.
func (r *reader) fluxSays(name string, known ...string) map[string]bool {
	key := "kustomize.toolkit.fluxcd.io/" + name
	says := map[string]bool{}
	for _, values := range []map[string]any{r.annotations, r.labels} {
		text, found := r.textOf(values, key)
		if !found {
			continue
		}
		word := strings.ToLower(text)
		if !slices.Contains(known, word) {
			r.fail(key, text, oneOf(known))
		}
		says[word] = true
	}
	return says
}
