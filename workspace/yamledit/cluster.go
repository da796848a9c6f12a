package yamledit

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Joined plans that a cluster's agent has these keys, and that nobody else joins in its place.
func Joined(repo fs.FS, cluster string, keys fleet.AgentKeys) (*Change, error) {
	before, err := fleet.Load(repo)
	if err != nil {
		return nil, err
	}
	known, ok := before.Cluster(cluster)
	if !ok {
		return nil, &Error{fmt.Sprintf("the installation repo has no cluster %q", cluster), "git pull, or plural cluster list"}
	}
	c := &Change{File: known.Position.File}
	if c.Before, err = read(repo, c.File); err != nil {
		return nil, err
	}
	c.After = c.Before
	if known.Spec.Agent == keys && known.Spec.Join == nil {
		return c, nil
	}
	prefix, err := document(c.File, c.Before, "Cluster", cluster)
	if err != nil {
		return nil, err
	}
	for _, key := range []struct{ name, value string }{{"auth", keys.Auth}, {"age", keys.Age}} {
		if c.After, err = values.Set(c.File, c.After, prefix+"spec.agent."+key.name, []byte(key.value), values.String); err != nil {
			return nil, err
		}
	}
	if known.Spec.Join != nil { // after the keys: a mapping without any looks like nobody wrote it
		if c.After, err = values.Delete(c.File, c.After, prefix+"spec.join"); err != nil {
			return nil, err
		}
	}
	after, err := fleet.Load(overlay.New(repo, map[string][]byte{c.File: c.After}))
	if err != nil {
		return nil, err
	}
	if now, ok := after.Cluster(cluster); !ok || now.Spec.Agent != keys || now.Spec.Join != nil {
		return nil, &Error{
			fmt.Sprintf("the keys of cluster %q cannot be changed by a program", cluster), "register it by hand: plural cluster register " + cluster,
		}
	}
	return c, nil
}

// Skipped plans that an installation is never offered a version again.
func Skipped(repo fs.FS, installation, version string) (*Change, error) {
	before, err := fleet.Load(repo)
	if err != nil {
		return nil, err
	}
	known, ok := before.Installation(installation)
	if !ok {
		return nil, &Error{fmt.Sprintf("the installation repo has no installation %q", installation), "git pull, or plural package list"}
	}
	c := &Change{File: known.Position.File}
	if c.Before, err = read(repo, c.File); err != nil {
		return nil, err
	}
	c.After = c.Before
	written := known.Spec.Upgrade.Skip
	list := merged(written, []string{version}, func(string) bool { return true })
	if len(list) == len(written) {
		return c, nil
	}
	prefix, err := document(c.File, c.Before, "Installation", installation)
	if err != nil {
		return nil, err
	}
	if c.After, err = putList(c.File, c.Before, prefix+"spec.upgrade.skip", list, len(written) > 0); err != nil {
		return nil, err
	}
	after, err := fleet.Load(overlay.New(repo, map[string][]byte{c.File: c.After}))
	if err != nil {
		return nil, err
	}
	if now, ok := after.Installation(installation); !ok || strings.Join(now.Spec.Upgrade.Skip, " ") != strings.Join(list, " ") {
		return nil, &Error{
			fmt.Sprintf("the policy of installation %q cannot be changed by a program", installation),
			"add " + version + " to spec.upgrade.skip by hand",
		}
	}
	return c, nil
}
