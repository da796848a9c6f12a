package apply

import (
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/agent/watchcache"
)

// Seen is what the watches show of an object, and whether they look at its kind.
func (e *Engine) Seen(id object.ID) (facts watchcache.Facts, there, followed bool) {
	facts, there = e.seen.Get(id)
	return facts, there, e.seen.Followed(id.GroupKind())
}
