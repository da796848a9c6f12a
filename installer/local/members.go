package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/installer/converge"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/rekey"
)

// startAgents registers the clusters that are not, commits them with what the fleet is to run at first, and starts
// their agents.
func (b *bringUp) startAgents(ctx context.Context, step string) (string, error) {
	registered, err := b.registerAll(ctx)
	if err != nil {
		return "", err
	}
	for _, cluster := range registered { // not before the commit: keys that git does not know are good for nothing
		if err := replaceFile(b.registration(cluster), []byte(b.hubURL), 0o600); err != nil {
			return "", fmt.Errorf("note registration of %s: %w", cluster, err)
		}
	}
	if b.head, err = b.repo.Push(ctx); err != nil {
		return "", err
	}
	if err := b.seen(ctx, step); err != nil {
		return "", err
	}
	for _, cluster := range b.Options.Clusters {
		command := append(slices.Clone(b.Agent),
			"--kubeconfig", b.Kubeconfig(cluster), "--data", b.agentDir(cluster),
			"--listen", "127.0.0.1:0", "--with-parent")
		if err := b.processes().Set(supervise.Process{Name: AgentPart + cluster, Command: command}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d registered and started", len(b.Options.Clusters)), nil
}

// seen waits until the hub has looked at what was pushed: an agent that it turns away comes back much later.
func (b *bringUp) seen(ctx context.Context, step string) error {
	begun := time.Now()
	return b.until(ctx, func() (bool, error) {
		status, err := b.Options.Status(ctx, b.hubURL, b.token)
		if err != nil || status.Head.ID == b.head {
			return err == nil, err
		}
		if time.Since(begun) >= converge.NameAfter {
			b.Reporter.Detail(step, fmt.Sprintf("waiting for the hub to fetch %.7s from %s", b.head, b.origin))
		}
		for _, source := range status.Sources {
			if source.Name == "." && source.Error != "" {
				err = errors.New("the hub cannot fetch the installation repo: " + source.Error)
			}
		}
		return false, err
	})
}

// registration is the file that says at which hub a cluster is registered.
func (f Fleet) registration(cluster string) string {
	return filepath.Join(f.clusterDir(cluster), "registered")
}

// registerAll registers the clusters that are not. In a sealed repo each that has fresh keys is a commit of its own, which lets
// the cluster open what its groups can.
func (b *bringUp) registerAll(ctx context.Context) (registered []string, err error) {
	if _, err := rekey.Resume(ctx, b.repo, b.Confirmed); err != nil { // an earlier up was killed
		return nil, err
	}
	files := map[string][]byte{}
	if err := b.addSample(files); err != nil {
		return nil, err
	}
	if err := b.letHookIn(files); err != nil {
		return nil, err
	}
	for i, cluster := range b.Options.Clusters {
		if err := b.letOperatorsIn(ctx, cluster); err != nil {
			return nil, err
		}
		known, err := b.isRegistered(cluster)
		if err != nil {
			return nil, err
		}
		if known {
			continue
		}
		if err := b.register(ctx, files, cluster, i == 0); err != nil {
			return nil, err
		}
		registered = append(registered, cluster)
	}
	if err := b.complete(files); err != nil {
		return nil, err
	}
	if len(files) > 0 {
		_, err = b.repo.Commit(ctx, "Register the local clusters", files)
	}
	return registered, err
}

// complete has the repo name what it does not: the management cluster, on which packages run unless they say otherwise, and its own
// identity.
func (b *bringUp) complete(files map[string][]byte) error {
	w, err := b.manifest()
	if err != nil || w == nil {
		return err
	}
	before, err := os.ReadFile(filepath.Join(b.Repo, workspace.Manifest))
	if err != nil {
		return fmt.Errorf("read %s: %w", workspace.Manifest, err)
	}
	text := before
	for _, field := range []struct{ has, key, value string }{
		{w.Spec.Management, "spec.management", b.Options.Clusters[0]},
		{w.Metadata.Annotations[fleet.RepositoryAnnotation], `metadata.annotations.plural\.sh/repository`, workspace.NewRepository()},
	} {
		if field.has != "" {
			continue
		}
		if text, err = values.Set(workspace.Manifest, text, field.key, []byte(field.value), values.String); err != nil {
			return err
		}
	}
	if !bytes.Equal(before, text) {
		files[workspace.Manifest] = text
	}
	return nil
}

// isRegistered says whether the cluster knows its keys and this hub, and the repo knows the cluster. Otherwise the
// cluster counts as registered nowhere from here on.
func (b *bringUp) isRegistered(cluster string) (bool, error) {
	_, err := os.Lstat(filepath.Join(b.Repo, register.Path(cluster)))
	if err != nil && !os.IsNotExist(err) {
		return false, fmt.Errorf("look for %s: %w", register.Path(cluster), err)
	}
	inRepo := err == nil
	if hub, err := os.ReadFile(b.registration(cluster)); err == nil && string(hub) == b.hubURL && inRepo {
		return true, nil
	}
	if err := os.Remove(b.registration(cluster)); err != nil && !os.IsNotExist(err) {
		return false, fmt.Errorf("forget registration of %s: %w", cluster, err)
	}
	return false, nil
}

// register gives a cluster its keys. Where the repo knows those that it had before a Down, it has them again and nothing else
// changes. Else its file goes to files or, in a sealed repo, into a commit with its envelopes.
func (b *bringUp) register(ctx context.Context, files map[string][]byte, cluster string, management bool) error {
	path := register.Path(cluster)
	file, err := os.ReadFile(filepath.Join(b.Repo, path))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	kube, err := b.kube(cluster)
	if err != nil {
		return err
	}
	role := "edge"
	if management {
		role = "management"
	}
	request := register.Request{
		Cluster: cluster, HubURL: b.hubURL, Tags: map[string]string{"env": "local", "role": role},
		Repo: os.DirFS(b.Repo),
	}
	editor, err := b.editor()
	if err != nil {
		return err
	}
	if editor != nil {
		request.Repository = editor.Vault().Policy().Repository
	}
	if request.Before, err = b.keysBefore(cluster, request.Repository); err != nil {
		return err
	}
	prepared, err := register.Prepare(request, file)
	if err != nil {
		return err
	}
	if prepared.Kept {
		return prepared.Install(ctx, kube)
	}
	if err := b.keepKeys(cluster, request.Repository, prepared.Keys); err != nil {
		return err
	}
	if editor == nil {
		files[path] = prepared.File
		return prepared.Install(ctx, kube)
	}
	plan, err := editor.AddCluster(rekey.Cluster{Name: cluster, Tags: prepared.Tags, Age: prepared.Age})
	if err != nil {
		return err
	}
	plan.Changes[path] = prepared.File
	if err := prepared.Install(ctx, kube); err != nil {
		return err
	}
	_, err = plan.Apply(ctx, "")
	return err
}

// agentKeys are what a cluster's agent is known by, beside the cluster, whose data a Down deletes.
type agentKeys struct {
	Auth string `json:"auth"`
	Age  string `json:"age"`
	// Repository is the id of the sealed repo whose groups the cluster was let into with these keys; empty: nothing was sealed.
	Repository string `json:"repository,omitempty"`
}

// keysBefore are the keys that a cluster was registered with last, in this repository; nil where there are none.
func (f Fleet) keysBefore(cluster, repository string) (*crypto.AgentIdentity, error) {
	raw, err := os.ReadFile(f.keysFile(cluster))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var keys agentKeys
	if err == nil {
		err = json.Unmarshal(raw, &keys)
	}
	if err != nil {
		return nil, fmt.Errorf("read keys of cluster %s: %w", cluster, err)
	}
	if keys.Repository != repository {
		return nil, nil
	}
	return crypto.ParseAgentIdentity(keys.Auth, keys.Age)
}

func (f Fleet) keepKeys(cluster, repository string, identity *crypto.AgentIdentity) error {
	auth, age := identity.Private()
	raw, err := json.Marshal(agentKeys{Auth: auth, Age: age, Repository: repository})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.keysFile(cluster)), 0o700)
	}
	if err == nil {
		err = replaceFile(f.keysFile(cluster), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep keys of cluster %s: %w", cluster, err)
	}
	return nil
}

// letOperatorsIn makes whoever holds the hub's token the cluster's administrator: on this machine that is who made both.
func (b *bringUp) letOperatorsIn(ctx context.Context, cluster string) error {
	kube, err := b.kube(cluster)
	if err != nil {
		return err
	}
	files, err := templates.Render(templates.Operators, nil)
	if err != nil {
		return err
	}
	bindings := kube.Resource(schema.GroupVersionResource{
		Group: "rbac.authorization.k8s.io", Version: "v1",
		Resource: "clusterrolebindings",
	})
	for _, file := range files {
		binding := new(unstructured.Unstructured)
		if err := yaml.UnmarshalStrict(file.Content, &binding.Object); err != nil {
			return fmt.Errorf("read %s: %w", file.Path, err)
		}
		if _, err := bindings.Apply(ctx, binding.GetName(), binding, metav1.ApplyOptions{FieldManager: "plural-local", Force: true}); err != nil {
			return fmt.Errorf("let the hub's operators into %s: %w", cluster, err)
		}
	}
	return nil
}

// editor changes who can open what; nil where nothing is sealed.
func (b *bringUp) editor() (*rekey.Editor, error) {
	editor, err := rekey.Open(b.repo, b.Keys, b.Confirmed)
	if errors.Is(err, policy.ErrNone) {
		return nil, nil
	}
	return editor, err
}

func (b *bringUp) kube(cluster string) (dynamic.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig(cluster))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of %s: %w", cluster, err)
	}
	kube, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cluster, err)
	}
	return kube, nil
}

// addSample gives a fleet that is new, without clusters and services, one service to look at.
func (b *bringUp) addSample(files map[string][]byte) error {
	for _, folder := range []string{"clusters", "services"} {
		entries, err := os.ReadDir(filepath.Join(b.Repo, folder))
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("look for %s: %w", folder, err)
		}
		if slices.ContainsFunc(entries, isYAML) {
			return nil
		}
	}
	sample, err := templates.Files(templates.Sample)
	if err != nil {
		return err
	}
	for _, file := range sample {
		if _, err := os.Lstat(filepath.Join(b.Repo, file.Path)); err == nil {
			return nil // somebody has begun already
		}
	}
	for _, file := range sample {
		files[file.Path] = file.Content
	}
	return nil
}

func isYAML(e os.DirEntry) bool {
	extension := filepath.Ext(e.Name())
	return extension == ".yaml" || extension == ".yml"
}
