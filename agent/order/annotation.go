package order

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/object"
)

// Of reads an object's turns, one for each stage, sorted by stage. There is always at least one, unless the error, an
// *Error, names an annotation that says nothing clear.
func Of(obj *unstructured.Unstructured) ([]Turn, error) {
	r := newReader(obj)
	var shared Turn
	r.readHelm(&shared)
	r.readCLIUtils(&shared)
	shared.Recreate = recreation(r.readArgo(&shared), r.readFlux(&shared))
	r.readOwn(&shared)
	turns := r.turns(shared)
	if r.err != nil {
		return nil, r.err
	}
	return turns, nil
}

// reader reads the annotations of one object. The first thing that it does not understand stays in err.
type reader struct {
	id                  object.ID
	annotations, labels map[string]any
	err                 error
}

func newReader(obj *unstructured.Unstructured) *reader {
	r := &reader{id: object.Of(obj)}
	r.annotations = r.values(obj, "annotations")
	r.labels = r.values(obj, "labels")
	return r
}

// values takes the map as it is: to drop all values because one of them is a number would lose those that keep an object.
func (r *reader) values(obj *unstructured.Unstructured, field string) map[string]any {
	values, _, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", field)
	if err != nil || values == nil {
		return nil
	}
	texts, ok := values.(map[string]any)
	if !ok {
		r.fail("metadata."+field, fmt.Sprint(values), "a map of names to texts")
	}
	return texts
}

// clipped bounds what an error repeats of a value.
const clipped = 200

func (r *reader) fail(annotation, value, want string) {
	if r.err != nil {
		return
	}
	if runes := []rune(value); len(runes) > clipped {
		value = string(runes[:clipped]) + "..."
	}
	r.err = &Error{Object: r.id, Annotation: annotation, Value: value, Want: want}
}

// text is the value of an annotation. One with no value at all, as templates leave them behind, is not there.
func (r *reader) text(annotation string) (string, bool) {
	return r.textOf(r.annotations, annotation)
}

func (r *reader) textOf(values map[string]any, name string) (string, bool) {
	value, found := values[name]
	if !found || value == nil {
		return "", false
	}
	text, ok := value.(string)
	if !ok {
		r.fail(name, fmt.Sprint(value), "a text: quote numbers and booleans")
		return "", false
	}
	return strings.TrimSpace(text), true
}

// word is the value of an annotation that has one of a few values; empty when it is not there.
func (r *reader) word(annotation string, known ...string) string {
	text, found := r.text(annotation)
	if found && !slices.Contains(known, text) {
		r.fail(annotation, text, oneOf(known))
		return ""
	}
	return text
}

// words is the value of an annotation that lists some, without the empty ones.
func (r *reader) words(annotation string) (words []string, found bool) {
	text, found := r.text(annotation)
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words, found
}

// number is the value of an annotation that holds a whole number.
func (r *reader) number(annotation string) (value int, found bool) {
	text, found := r.text(annotation)
	if !found || text == "" {
		return 0, false
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		r.fail(annotation, text, "a whole number, in quotes")
	}
	return int(number), true
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// opinion is what one vocabulary says of deleting an object to make it anew.
type opinion int

const (
	silent opinion = iota
	allowed
	forbidden
)

// recreation is allowed when somebody allows it and nobody forbids it.
func recreation(opinions ...opinion) bool {
	return slices.Contains(opinions, allowed) && !slices.Contains(opinions, forbidden)
}

// hooks is what an object says of the stages that it runs in.
type hooks struct {
	found  bool
	stages map[Stage]string // to what Turn.Only is there
	plain  bool             // it is applied like an object that is no hook, too
	family Family
}

// turns gives the object its stages. The words of the first vocabulary that has any count: ours, Argo's, Helm's.
func (r *reader) turns(shared Turn) []Turn {
	found := r.ownHooks()
	if !found.found {
		found = r.argoHooks()
	}
	if !found.found {
		found = r.helmHooks()
	}
	shared.Wave = r.wave(found.family == Helm)
	if !found.found {
		shared.Stage = Sync
		return []Turn{shared}
	}
	return r.hookTurns(shared, found)
}

func (r *reader) hookTurns(shared Turn, found hooks) []Turn {
	var turns []Turn
	if _, also := found.stages[Sync]; found.plain && !also {
		plain := shared
		plain.Stage, plain.Wave = Sync, r.wave(false)
		turns = append(turns, plain)
	}
	hook := shared
	hook.Hook, hook.Family = true, found.family
	r.readPolicies(&hook)
	for stage, only := range found.stages {
		hook.Stage, hook.Only = stage, only
		turns = append(turns, hook)
	}
	if len(turns) == 0 {
		shared.Stage, shared.Pause = Skip, true
		return []Turn{shared}
	}
	slices.SortFunc(turns, func(a, b Turn) int { return int(a.Stage) - int(b.Stage) })
	return turns
}

// wave is the number of the first vocabulary that gives one. A weight speaks of Helm's own hooks alone.
func (r *reader) wave(helmHook bool) int {
	annotations := []string{"plural.sh/wave", "argocd.argoproj.io/sync-wave"}
	if helmHook {
		annotations = append(annotations, "helm.sh/hook-weight")
	}
	for _, annotation := range annotations {
		if wave, found := r.number(annotation); found {
			return wave
		}
	}
	return 0
}

// policies are the words of one vocabulary for when a hook is deleted, in lower case and without "hook".
type policies struct {
	annotation                               string
	beforeCreation, succeeded, failed, never string
}

// readPolicies takes the first vocabulary that gives any.
func (r *reader) readPolicies(turn *Turn) {
	for _, words := range []policies{
		{"plural.sh/hook-delete-policy", "before-creation", "succeeded", "failed", "never"},
		{"argocd.argoproj.io/hook-delete-policy", "BeforeHookCreation", "HookSucceeded", "HookFailed", "Never"},
		{"helm.sh/hook-delete-policy", "before-hook-creation", "hook-succeeded", "hook-failed", ""},
	} {
		if given, _ := r.words(words.annotation); len(given) > 0 {
			r.readPolicy(turn, words, given)
			return
		}
	}
	turn.BeforeCreation = true
}

func (r *reader) readPolicy(turn *Turn, words policies, given []string) {
	never := false
	for _, word := range given {
		switch {
		case word == words.beforeCreation:
			turn.BeforeCreation = true
		case word == words.succeeded:
			turn.Succeeded = true
		case word == words.failed:
			turn.Failed = true
		case word == words.never:
			never = true
		default:
			r.fail(words.annotation, word, words.allowed())
		}
	}
	if never {
		turn.BeforeCreation, turn.Succeeded, turn.Failed = false, false, false
	}
}

func (p policies) allowed() string {
	all := []string{p.beforeCreation, p.succeeded, p.failed}
	if p.never != "" {
		all = append(all, p.never)
	}
	return oneOf(all)
}
