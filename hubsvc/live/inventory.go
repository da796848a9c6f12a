package live

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// What an agent says of an object is a stranger's text, and a megabyte fits into one.
const (
	maxMessage = 1024
	maxName    = 253
	// perObject is what an object costs in memory beside its texts.
	perObject = 400
)

// inventory is objects with what they cost in memory, roughly.
type inventory struct {
	byUID map[string]*tunnelapi.Object
	size  int
}

func newInventory() inventory { return inventory{byUID: map[string]*tunnelapi.Object{}} }

func (i *inventory) put(o *tunnelapi.Object) {
	i.delete(o.GetUid())
	i.byUID[o.GetUid()] = o
	i.size += perObject + proto.Size(o)
}

// delete says whether there was such an object.
func (i *inventory) delete(uid string) bool {
	o, ok := i.byUID[uid]
	if ok {
		i.size -= perObject + proto.Size(o)
		delete(i.byUID, uid)
	}
	return ok
}

// clipped is an object with its texts bounded, and nothing that this hub does not know.
func clipped(o *tunnelapi.Object) *tunnelapi.Object {
	return &tunnelapi.Object{
		Uid: short(o.GetUid(), maxName), Owner: short(o.GetOwner(), maxName),
		Group: short(o.GetGroup(), maxName), Version: short(o.GetVersion(), maxName), Kind: short(o.GetKind(), maxName),
		Resource: short(o.GetResource(), maxName), Namespace: short(o.GetNamespace(), maxName), Name: short(o.GetName(), maxName),
		Health: short(o.GetHealth(), maxName), Message: short(o.GetMessage(), maxMessage),
		ResourceVersion: short(o.GetResourceVersion(), maxName), CreatedUnixMs: o.GetCreatedUnixMs(),
		Applied: o.GetApplied(), Deleting: o.GetDeleting(),
	}
}

func short(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-3], "") + "..."
	}
	return s
}
