package order

import "strings"

// readHelm reads the words of Helm that say how an object is deleted.
func (r *reader) readHelm(turn *Turn) {
	const annotation = "helm.sh/resource-policy"
	policy, _ := r.text(annotation)
	switch strings.ToLower(policy) {
	case "": // what a template leaves of a value that is not set
	case "keep":
		turn.NoPrune, turn.Keep = true, true
	default:
		r.fail(annotation, policy, "keep")
	}
}

const helmHookWords = "one or more of pre-install, post-install, pre-upgrade, post-upgrade, pre-delete, post-delete, " +
	"pre-rollback, post-rollback, test and crd-install"

func (r *reader) helmHooks() hooks {
	const annotation = "helm.sh/hook"
	words, found := r.words(annotation)
	if !found {
		return hooks{}
	}
	h := hooks{found: true, helm: true, stages: map[Stage]string{}}
	for _, word := range words {
		switch strings.ToLower(word) {
		case "pre-install":
			h.add(PreSync, "install")
		case "pre-upgrade":
			h.add(PreSync, "upgrade")
		case "post-install":
			h.add(PostSync, "install")
		case "post-upgrade":
			h.add(PostSync, "upgrade")
		case "pre-delete":
			h.add(PreDelete, "")
		case "post-delete":
			h.add(PostDelete, "")
		case "test", "test-success":
			h.add(Test, "")
		case "crd-install":
			h.plain = true
		case "pre-rollback", "post-rollback": // never happens: to go back is a sync of an older commit
		default:
			r.fail(annotation, word, helmHookWords)
		}
	}
	if len(words) == 0 {
		r.fail(annotation, "", helmHookWords)
	}
	return h
}

// add notes an event. Install and upgrade together are every sync.
func (h hooks) add(stage Stage, only string) {
	if known, twice := h.stages[stage]; twice && known != only {
		only = ""
	}
	h.stages[stage] = only
}
