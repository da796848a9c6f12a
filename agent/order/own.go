package order

import "strings"

// readOwn reads our own words. They are read last: what they say, they say against all others.
func (r *reader) readOwn(turn *Turn) {
	switch r.word("plural.sh/prune", "allow", "never") {
	case "allow":
		turn.NoPrune = false
	case "never":
		turn.NoPrune = true
	}
	r.decide("plural.sh/keep", &turn.Keep, "true", "false")
	r.decide("plural.sh/prune-last", &turn.PruneLast, "true", "false")
	r.decide("plural.sh/recreate", &turn.Recreate, "allow", "never")
	entries, _ := r.words("plural.sh/depends-on")
	r.readDependencies(turn, "plural.sh/depends-on", entries, parseOwnDependency)
}

// decide sets a flag when the annotation is there.
func (r *reader) decide(annotation string, flag *bool, yes, no string) {
	if word := r.word(annotation, yes, no); word != "" {
		*flag = word == yes
	}
}

func (r *reader) ownHooks() hooks {
	words, found := r.words("plural.sh/hook")
	if !found {
		return hooks{}
	}
	h := hooks{found: true, stages: map[Stage]string{}}
	for _, word := range words {
		stage, known := ParseStage(word)
		if !known || stage == Skip && len(words) > 1 {
			r.fail("plural.sh/hook", word, ownHookWords())
		}
		if stage != Skip {
			h.stages[stage] = ""
		}
	}
	if len(words) == 0 {
		r.fail("plural.sh/hook", "", ownHookWords())
	}
	return h
}

func ownHookWords() string {
	words := stageWords()
	return "one or more of " + strings.Join(words[:Skip], ", ") + ", or skip alone"
}
