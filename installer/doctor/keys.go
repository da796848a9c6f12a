package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/policy"
)

// keys are the checks of what the person opens and seals with.
func (x *exam) keys() []Check {
	return []Check{
		{Group: "keys", Name: "identity", Before: true, Run: x.identity},
		{Group: "keys", Name: "guard", Run: x.guard},
		{Group: "keys", Name: "unlocked", Run: x.unlocked},
	}
}

// seals says whether the repo has anything sealed, or the reason why nobody can say.
func (x *exam) seals() (bool, error) {
	if x.Repo == nil {
		return false, x.absent()
	}
	_, err := policy.Load(os.DirFS(x.Repo.Root()))
	if errors.Is(err, policy.ErrNone) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (x *exam) identity(context.Context) Result {
	const fix = "plural crypto init makes one, plural crypto import FILE takes one over"
	ids, err := x.Identities()
	if err != nil {
		return because(err, "your identities cannot be used", fix)
	}
	if len(ids) > 0 {
		return ok("%s", plural(len(ids), "identity", "identities"))
	}
	sealed, err := x.seals()
	if err == nil && !sealed {
		return skipped("you have no identity, and nothing here is sealed")
	}
	if x.Repo == nil {
		return warn(fix, "you have no identity")
	}
	return fail(fix, "you have no identity, and the repo is sealed")
}

// guard looks at what keeps this clone's secrets out of git in clear.
func (x *exam) guard(ctx context.Context) Result {
	sealed, err := x.seals()
	if err != nil || !sealed {
		return unsealed(err)
	}
	repo, err := gitcmd.Find(ctx, x.Repo.Root())
	if err != nil {
		return because(err, "git's settings cannot be read", "git config --list says why")
	}
	found, err := gitsetup.Inspect(ctx, repo, x.Program)
	switch {
	case err != nil:
		return because(err, "git's settings cannot be read", "git config --list says why")
	case found.Locked:
		return ok("the clone is locked: its work tree holds what git does")
	case found.Obstacle != nil:
		return because(found.Obstacle, "git's settings cannot be completed", "plural crypto doctor")
	case len(found.Missing) > 0:
		return fail("plural crypto unlock",
			"nothing keeps this clone's secrets from being committed in clear: missing are %s", strings.Join(found.Missing, ", "))
	}
	return ok("git seals what must be sealed")
}

func unsealed(err error) Result {
	if err != nil {
		return skipped("%v", err)
	}
	return skipped("nothing here is sealed")
}

// unlocked tries the keys.
func (x *exam) unlocked(context.Context) Result {
	sealed, err := x.seals()
	if err != nil || !sealed {
		return unsealed(err)
	}
	v, err := x.Repo.Vault(nil)
	if err != nil {
		return because(err, "the repo's keys cannot be read", "plural crypto doctor")
	}
	ring, err := v.Keyring()
	if err != nil {
		return because(err, "you cannot open what is sealed here", "plural crypto status")
	}
	if groups := ring.Groups(); len(groups) > 0 {
		return ok("you can open what is sealed for %s", some(groups))
	}
	return warn("let a member add you: plural crypto share", "you can open nothing that is sealed here")
}
