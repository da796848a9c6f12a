// Package order owns the order in which objects are applied, as their kinds and annotations say.
//
// It refuses to know what is live in a cluster, how an object is sent there, and who renders it.
//
// Data passes through like this: Of reads the annotations of one object, in the words of Argo CD, Helm, Flux, cli-utils
// and our own, into its turns (annotation.go, argo.go, helm.go, flux.go, cliutils.go). Plan puts the turns of a whole
// render one after another (plan.go), by the ranks of kinds among other things (rank.go). docs/spec/annotations.md is
// the table of all words, with their meaning here.
package order

import (
	"fmt"

	"github.com/pluralsh/plural/agent/object"
)

// Stage is a part of a sync or of a removal, in their order. The zero value is PreSync.
type Stage int

// The stages. PreSync, Sync and PostSync follow each other; each of the others is entered for a reason of its own.
const (
	PreSync    Stage = iota // before anything else is applied
	Sync                    // where objects without a hook are applied
	PostSync                // after all of that is healthy
	SyncFail                // after a sync that failed
	PreDelete               // before the service is deleted
	PostDelete              // after the service is deleted
	Test                    // when the tests of a service run
	Skip                    // never
)

// stageWords are the words for stages, by stage: of plural.sh/hook, and of stored inventories.
func stageWords() [8]string {
	return [...]string{"pre-sync", "sync", "post-sync", "sync-fail", "pre-delete", "post-delete", "test", "skip"}
}

// String is the stage's word, as plural.sh/hook takes it.
func (s Stage) String() string {
	if words := stageWords(); s >= 0 && int(s) < len(words) {
		return words[s]
	}
	return fmt.Sprintf("stage %d", int(s))
}

// ParseStage reads what String writes.
func ParseStage(word string) (Stage, bool) {
	for stage, known := range stageWords() {
		if word == known {
			return Stage(stage), true
		}
	}
	return Skip, false
}

// Family is the tool in whose words an object is a hook. Hooks follow that tool's rules of order, waiting and deletion.
type Family int

// The families. Ours is the zero value.
const (
	Own  Family = iota // hooks of a wave run together; policies are carried out when the stage has ended
	Argo               // hooks of a wave run together; policies are carried out when the sync has ended
	Helm               // hooks run one after another; policies are carried out when the stage has ended
)

// Turn is when and how one object is applied. The flags are those of the object: all its turns share them.
type Turn struct {
	Stage Stage
	Wave  int
	// Hook says that the object runs once for each revision, and is waited for.
	Hook bool
	// Family is the tool whose annotation makes the object a hook, and whose rules it follows.
	Family Family
	// Only is "install" or "upgrade" for a Helm hook that runs on one of them alone, else empty.
	Only string
	// BeforeCreation, Succeeded and Failed are the delete policies of a hook. A hook with no policy has BeforeCreation.
	BeforeCreation, Succeeded, Failed bool
	// After is what must be healthy first, whether or not it is part of the same render. An ID with no namespace may
	// be of a namespaced kind: then it lies in the namespace that the render's own objects without one lie in.
	After []object.ID
	// NoPrune says that the object stays when the render no longer holds it.
	NoPrune bool
	// Keep says that the object stays when the service is deleted.
	Keep bool
	// PruneLast says that the object is pruned after the objects that do not say so.
	PruneLast bool
	// Recreate says that the object may be deleted and made anew when a change is not possible otherwise.
	Recreate bool
	// Once says that the object is made when it is missing, then left alone.
	Once bool
	// Pause says that the object is neither applied nor deleted for now.
	Pause bool
	// Merge says that fields that others added stay. They do anyway, where fields have owners.
	Merge bool
	// IgnoreHealth says that nobody waits for the object's health, nor is told of it.
	IgnoreHealth bool
	// LocalOnly says that the object is input for tools, and never goes to a cluster.
	LocalOnly bool
	// Optional says that a kind that the cluster does not serve is waited for, and no failure.
	Optional bool
}
