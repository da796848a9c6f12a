package order

import (
	"fmt"
	"slices"
	"strings"
)

const argoOptions = "argocd.argoproj.io/sync-options"

// argoOptionValues are the options that Argo CD knows, with their values. An option that is not among them may be
// a misspelt one that was to keep an object, so it is no option to pass it over.
func argoOptionValues(option string) []string {
	switch option {
	case "Prune", "Delete":
		return []string{"true", "false", "confirm"}
	case "PrunePropagationPolicy":
		return []string{"foreground", "background", "orphan"}
	case "PruneLast", "Replace", "Force", "SkipDryRunOnMissingResource", "Validate", "ServerSideApply",
		"ClientSideApplyMigration", "RespectIgnoreDifferences", "ApplyOutOfSyncOnly", "FailOnSharedResource",
		"CreateNamespace":
		return []string{"true", "false"}
	}
	return nil
}

// readArgo reads the words of Argo CD that say how an object is applied and deleted.
func (r *reader) readArgo(turn *Turn) opinion {
	options := r.argoOptions()
	// A confirmation is asked of a person, who gives it by an annotation of ours on the live object.
	turn.NoPrune = turn.NoPrune || options["Prune"] == "false" || options["Prune"] == "confirm"
	turn.Keep = turn.Keep || options["Delete"] == "false" || options["Delete"] == "confirm"
	turn.PruneLast = turn.PruneLast || options["PruneLast"] == "true"
	turn.Optional = turn.Optional || options["SkipDryRunOnMissingResource"] == "true"
	if r.word("argocd.argoproj.io/ignore-healthcheck", "true", "false") == "true" {
		turn.IgnoreHealth = true
	}
	switch options["Force"] { // Replace alone overwrites, and deletes nothing
	case "true":
		return allowed
	case "false":
		return forbidden
	}
	return silent
}

func (r *reader) argoOptions() map[string]string {
	words, _ := r.words(argoOptions)
	options := map[string]string{}
	for _, word := range words {
		option, value, _ := strings.Cut(word, "=")
		values := argoOptionValues(option)
		if values == nil {
			r.fail(argoOptions, word, "an option of Argo CD, such as Prune=false or PruneLast=true")
			continue
		}
		if !slices.Contains(values, value) {
			r.fail(argoOptions, word, fmt.Sprintf("%s=%s", option, strings.Join(values, "|")))
			continue
		}
		// Of two that contradict each other the one that does less stands: "true" is the last word alphabetically.
		if given, twice := options[option]; !twice || value < given {
			options[option] = value
		}
	}
	return options
}

func (r *reader) argoHooks() hooks {
	const (
		annotation = "argocd.argoproj.io/hook"
		want       = "one or more of PreSync, Sync, PostSync, SyncFail, PreDelete and PostDelete, or Skip alone"
	)
	words, found := r.words(annotation)
	if !found {
		return hooks{}
	}
	h := hooks{found: true, family: Argo, stages: map[Stage]string{}}
	for _, word := range words {
		switch word {
		case "PreSync":
			h.stages[PreSync] = ""
		case "Sync":
			h.stages[Sync] = ""
		case "PostSync":
			h.stages[PostSync] = ""
		case "SyncFail":
			h.stages[SyncFail] = ""
		case "PreDelete":
			h.stages[PreDelete] = ""
		case "PostDelete":
			h.stages[PostDelete] = ""
		case "Skip": // counts when it stands alone, as there
		default:
			r.fail(annotation, word, want)
		}
	}
	if len(words) == 0 {
		r.fail(annotation, "", want)
	}
	return h
}
