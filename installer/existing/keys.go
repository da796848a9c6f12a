package existing

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/installer/hubkeys"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/rekey"
)

// register gives the cluster's agent its keys, unless it has those that the repo knows.
func (u *bringUp) register(ctx context.Context) (string, error) {
	path := register.Path(u.Cluster)
	file, err := u.read(path)
	if err != nil {
		return "", err
	}
	registered, err := u.registered(ctx, file)
	if err != nil || registered {
		return u.Cluster + " as it was", err
	}
	request := register.Request{Cluster: u.Cluster, HubURL: u.HubURL, HubCA: u.HubCA, Repo: os.DirFS(u.repo.Root())}
	if u.editor != nil {
		request.Repository = u.editor.Vault().Policy().Repository
	}
	var note string
	request.Parameters, note = register.Storage(ctx, u.kube, u.Cluster)
	prepared, err := register.Prepare(request, file)
	if err != nil {
		return "", err
	}
	changes := map[string][]byte{path: prepared.File}
	if changes[workspace.Manifest], err = u.managed(); err != nil {
		return "", err
	}
	message := "Register cluster " + u.Cluster
	if u.editor == nil {
		if err := prepared.Install(ctx, u.kube); err != nil {
			return "", err
		}
		_, err = u.repo.Commit(ctx, message, changes)
	} else {
		plan, planned := u.editor.AddCluster(rekey.Cluster{Name: u.Cluster, Tags: prepared.Tags, Age: prepared.Age})
		if planned != nil {
			return "", planned
		}
		maps.Copy(plan.Changes, changes)
		if err := prepared.Install(ctx, u.kube); err != nil {
			return "", err
		}
		_, err = plan.Apply(ctx, message)
	}
	if err != nil {
		return "", err
	}
	text := u.Cluster
	if note != "" && prepared.First {
		text = note
	}
	_, err = u.repo.Push(ctx)
	return text, err
}

// managed is plural.yaml with the management cluster's name.
func (u *bringUp) managed() ([]byte, error) {
	text, err := u.read(workspace.Manifest)
	if err != nil {
		return nil, err
	}
	return values.Set(workspace.Manifest, text, "spec.management", []byte(u.Cluster), values.String)
}

// registered says whether the cluster's agent is the one that the repo knows.
func (u *bringUp) registered(ctx context.Context, file []byte) (bool, error) {
	if file == nil {
		return false, nil
	}
	known, err := identity.Read(ctx, u.kube)
	if err != nil {
		return false, nil //nolint:nilerr // one that cannot be read is made anew
	}
	root, err := os.OpenRoot(u.repo.Root())
	if err != nil {
		return false, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	f, err := fleet.Load(root.FS())
	if err != nil {
		return false, err
	}
	c, ok := f.Cluster(u.Cluster)
	return ok && known.Cluster == u.Cluster && known.HubURL == u.HubURL && c.Spec.Agent.Auth == known.Identity.Public().Auth, nil
}

// hub puts into the cluster what the hub is told beside git, and lets it open what is sealed for it.
func (u *bringUp) hub(ctx context.Context) (string, error) {
	request := hubkeys.Request{Repo: u.Read, Edit: u.Push, TLSCert: u.TLSCert, TLSKey: u.TLSKey}
	var err error
	if u.keys, err = hubkeys.Prepare(ctx, u.kube, request); err != nil {
		return "", err
	}
	if u.Grant != nil && !u.keys.HasRepo() {
		if request.Repo, err = u.Grant(ctx); err != nil {
			return "", err
		}
		if u.keys, err = hubkeys.Prepare(ctx, u.kube, request); err != nil {
			return "", err
		}
	}
	text := "as they were"
	if u.keys.Changed() {
		if err := u.keys.Install(ctx, u.kube); err != nil {
			return "", err
		}
		text = hubkeys.Namespace + "/" + hubkeys.SecretName
		for _, part := range u.keys.Made() {
			text += ", new " + string(part)
		}
	}
	if err := u.keys.Restart(ctx, u.kube); err != nil { // most of it is read when the hub starts
		return "", err
	}
	if u.Token != nil {
		if err := u.Token(u.HubURL, u.keys.Token()); err != nil {
			return "", err
		}
	}
	if u.Hook != nil {
		if err := u.Hook(ctx, u.keys.HookSecret()); err != nil {
			return "", err
		}
	}
	if u.editor == nil {
		return text, nil
	}
	recipient, err := u.keys.Recipient()
	if err != nil {
		return "", err
	}
	// The registration may have changed who can open what.
	if u.editor, err = rekey.Open(u.repo, u.Keys, u.Confirmed); err != nil {
		return "", err
	}
	person, err := u.Person(ctx)
	if err != nil {
		return "", err
	}
	plan, err := hubkeys.Join(ctx, u.editor, recipient, person)
	if err != nil {
		return "", err
	}
	if plan.Empty() {
		return text, nil
	}
	if _, err := plan.Apply(ctx, ""); err != nil {
		return "", err
	}
	if err := u.guard(ctx); err != nil {
		return "", err
	}
	_, err = u.repo.Push(ctx)
	return text + ", group " + fleet.HubGroup + " shared with it", err
}

// guard tells this clone's git of the files that are sealed for the hub now.
func (u *bringUp) guard(ctx context.Context) error {
	git, err := gitcmd.Find(ctx, u.repo.Root())
	if err != nil {
		return err
	}
	_, err = gitsetup.Refresh(ctx, git)
	return err
}
