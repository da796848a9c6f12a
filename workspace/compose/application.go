package compose

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pluralsh/plural/workspace/expr"
	"github.com/pluralsh/plural/workspace/fleet"
)

// ApplicationFile is where the Application of an installation is written: beside all else that says who may what.
func ApplicationFile(installation string) string {
	return "access/application-" + installation + ".yaml"
}

const applicationHeader = "# Written by plural from the package %s and its answers. Do not edit it.\n"

// minSecret is how short a client secret may be, in characters: its hash stands in git for everybody to guess from.
const minSecret = 32

// compileOIDC reads the expressions of the package's Application.
func (l *loaded) compileOIDC() error {
	o := l.pkg.Spec.OIDC
	if o == nil {
		return nil
	}
	l.oidc = &part{raw: o.Spec, fields: [][2]string{{"spec", "spec.oidc.spec"}, {"", "spec.oidc.spec"}}}
	var err error
	if l.oidc.tree, err = expr.Compile(o.Spec); err != nil {
		return l.evaluation(l.oidc, err)
	}
	if o.Secret != "" {
		if l.oidcSecret, err = expr.Compile(o.Secret); err != nil {
			return l.fault("spec.oidc.secret", "", "%v", err)
		}
	}
	return nil
}

// application writes the Application in which people log in to what is installed, or takes away the one that was written.
func (i *installing) application() error {
	file := ApplicationFile(i.name())
	there, known := i.w.Fleet.Application(i.name())
	ours := known && there.Metadata.Labels[InstallationLabel] == i.name() && there.Position.File == file
	o := i.loaded.pkg.Spec.OIDC
	wanted := o != nil
	if wanted {
		yes, err := expr.Bool(cmp.Or(o.When, "${true}"), i.scope.vars)
		if err != nil {
			return i.loaded.fault("spec.oidc.when", "", "%v", err)
		}
		wanted = yes
	}
	switch {
	case !wanted && ours:
		i.result.composed.Files[file] = nil
		return nil
	case !wanted:
		return nil
	case known && !ours:
		return i.loaded.fault("spec.oidc", "plural application delete "+i.name()+", or install the package under another name",
			"the package makes the Application %q, and %s has one of that name", i.name(), there.Position)
	}
	got, err := i.scope.eval(i.loaded.oidc.raw, i.loaded.oidc.tree, i.w.Blind, nil)
	switch {
	case err != nil:
		return i.evaluation(i.loaded.oidc, err)
	case len(got.leaves) > 0:
		field := i.loaded.oidc.field(dotted(i.loaded.oidc.raw, got.leaves[0]))
		return i.loaded.fault(field, "name what is no secret", "a secret would stand in clear in the Application")
	}
	spec, ok := got.value.(map[string]any)
	if !ok {
		return i.loaded.fault("spec.oidc.spec", "", "no fields of an Application")
	}
	if o.Secret != "" {
		if spec["secretHash"], err = i.secretHash(o.Secret, there); err != nil {
			return err
		}
	}
	return i.writeApplication(file, spec)
}

// secretHash is that of the client secret. Where nobody here can open it, the one that was written is as good as any.
func (i *installing) secretHash(written string, there *fleet.Application) (string, error) {
	got, err := i.scope.eval(written, i.loaded.oidcSecret, true, nil)
	if err != nil {
		return "", i.loaded.fault("spec.oidc.secret", "", "%v", err)
	}
	if shut := i.scope.locked(got.files); shut != "" {
		if there == nil || there.Spec.SecretHash == "" {
			return "", &LockedError{shut}
		}
		return there.Spec.SecretHash, nil
	}
	secret, _ := got.value.(string)
	if len(secret) < minSecret {
		return "", i.loaded.fault("spec.oidc.secret", "have it generated, of 43 characters, or answer with a longer one",
			"the client secret has less than %d characters: its hash, which stands in git, could be guessed from", minSecret)
	}
	return fleet.HashToken(secret), nil
}

func (i *installing) writeApplication(file string, spec map[string]any) error {
	about := fleet.Metadata{Name: i.name(), Labels: map[string]string{InstallationLabel: i.name()}}
	doc := document{fleet.APIVersion, "Application", about, spec}
	text, err := encode(fmt.Sprintf(applicationHeader, i.loaded.pkg.Metadata.Name), doc)
	if err != nil {
		return err
	}
	if read, err := fleet.ReadAccess(file, text); err != nil {
		var fields map[string]fleet.Position
		if len(read.Applications) > 0 {
			fields = read.Applications[0].Fields
		}
		return i.impossible(i.loaded.oidc, "", err, fields)
	}
	old, err := fs.ReadFile(i.w.Repo, file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %q: %w", file, err)
	}
	if !bytes.Equal(old, text) {
		i.result.composed.Files[file] = text
	}
	return nil
}
