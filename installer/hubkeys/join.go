package hubkeys

import (
	"context"
	"fmt"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/rekey"
)

// Member is what the hub is called among the members of an installation repo.
const Member = "plural-hub"

// Pattern is sealed for the hub where nothing was before: credentials of sources, secrets of sinks.
const Pattern = "secrets/hub/**"

// Join plans that the hub with this public key can open what is sealed for the group hub, which is made when there is none. A
// hub that can already gives a plan that is empty. Person is who makes the group, and becomes a member beside the hub: nobody
// can seal again what nobody but the hub can open.
func Join(ctx context.Context, editor *rekey.Editor, recipient, person string) (*rekey.Plan, error) {
	hub := groups.Member{Kind: groups.Person, Name: Member}
	set := editor.Vault().Groups()
	keys := fmt.Appendf(nil, "# the hub of this fleet: its private half is in its cluster alone\n%s\n", recipient)
	known, isKnown := set.Person(Member)
	current := isKnown && len(known.Keys) == 1 && known.Keys[0].Text == recipient
	group, exists := set.Group(fleet.HubGroup)
	switch {
	case exists && current && group.Has(hub):
		return &rekey.Plan{}, nil
	case exists:
		return editor.Share(hub, &rekey.Person{Name: Member, Keys: keys}, []string{fleet.HubGroup})
	}
	return editor.CreateGroup(ctx, rekey.NewGroup{
		Name: fleet.HubGroup, Members: []groups.Member{hub, {Kind: groups.Person, Name: person}},
		Patterns: []string{Pattern}, People: []rekey.Person{{Name: Member, Keys: keys}},
	})
}
