package compose

import (
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
)

// checkSources brings along a Source that the package needs and the fleet has not. One that is there already must be of the same
// upstream, or the package would run what it does not mean.
func (i *installing) checkSources(p *part, spec map[string]any) error {
	if p.step.Helm == nil || p.step.Helm.Source == nil || p.step.Helm.Source.New == nil {
		return nil
	}
	source, _ := spec["source"].(map[string]any)
	name, _ := source["name"].(string)
	if !fs.ValidPath(name) || strings.Contains(name, "/") {
		return nil // no Source has such a name, as the strict reader says of the Service
	}
	file := "sources/" + name + ".yaml"
	text, err := encode("", document{fleet.APIVersion, "Source", fleet.Metadata{Name: name}, p.step.Helm.Source.New})
	if err != nil {
		return err
	}
	sources, err := fleet.ReadSources(file, text)
	if err != nil {
		return i.impossible(p, "helm.source.new", err, nil)
	}
	other, there := i.w.Fleet.Source(name)
	if there {
		file = fmt.Sprintf("%s:%d", other.Position.File, other.Position.Line)
	} else if by := i.brought[name]; by != nil {
		other, there, file = by.source, true, "package "+by.installation
	}
	if there && !serves(&other.Spec, &sources[0].Spec) {
		return i.loaded.fault(p.field("spec.source.name"), "give the package's Source another name, or the other one",
			"the package brings the Source %q of %s, and %s has one of that name of %s", name,
			upstream(&sources[0].Spec), file, upstream(&other.Spec))
	}
	if there {
		return nil
	}
	if message, fix := i.unwelcome(file, &sources[0].Spec); message != "" {
		return i.loaded.fault(p.field("spec.source.name"), fix, "%s", message)
	}
	i.result.composed.Files[file] = text
	i.brought[name] = &brought{i.name(), &sources[0]}
	return nil
}

// brought is a Source that is about to be written for an installation.
type brought struct {
	installation string
	source       *fleet.Source
}

// serves says whether a Source that is there does for one that is wanted. How it logs in, and how often it looks, is the fleet's.
func serves(there, wanted *fleet.SourceSpec) bool {
	return reflect.DeepEqual(there.Git, wanted.Git) && reflect.DeepEqual(there.Helm, wanted.Helm) &&
		reflect.DeepEqual(there.OCI, wanted.OCI) && reflect.DeepEqual(there.HTTP, wanted.HTTP) &&
		(wanted.Verify == nil || reflect.DeepEqual(there.Verify, wanted.Verify))
}

// upstream is what a Source fetches, in words.
func upstream(s *fleet.SourceSpec) string {
	var text, ref string
	switch {
	case s.Git != nil:
		text, ref = "git "+s.Git.URL, s.Git.Ref
	case s.OCI != nil:
		text, ref = s.OCI.URL, s.OCI.Ref
	case s.Helm != nil:
		text, ref = "helm "+s.Helm.URL, s.Helm.Ref
		if s.Helm.Chart != "" {
			text += ", chart " + s.Helm.Chart
		}
	case s.HTTP != nil:
		text, _, _ = strings.Cut(s.HTTP.URL, "?") // which may hold a token
		ref = s.HTTP.Digest
	}
	if ref != "" {
		text += " at " + ref
	}
	if s.Verify != nil {
		text += ", signed with " + strings.Join(s.Verify.Keys, ", ")
		if s.Verify.Keyless != nil {
			text += s.Verify.Keyless.Identity
		}
	}
	return text
}

// unwelcome says why a Source is not one that a package may bring: the hub would show a secret of the fleet to whomever the
// package's author names, or read the hub's own disk; or a person keeps something else under that name.
func (i *installing) unwelcome(file string, s *fleet.SourceSpec) (message, fix string) {
	const write = "write the Source into the installation repo first"
	_, err := fs.Stat(i.w.Repo, file)
	switch {
	case s.Auth != nil && s.Auth.Secret != "":
		return "a package brings no Source that is shown a secret of the fleet", write
	case s.Git != nil && strings.HasPrefix(s.Git.URL, "file:"):
		return "a package brings no Source on the hub's own disk", write
	case err == nil:
		return fmt.Sprintf("the package would write the Source into %s, which holds something else", file), write
	}
	return "", ""
}
