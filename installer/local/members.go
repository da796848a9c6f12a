package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/internal/supervise"
	"github.com/pluralsh/plural/templates"
)

// startAgents registers the clusters that are not, commits them with what the fleet is to run at first, and starts
// their agents.
func (b *bringUp) startAgents(ctx context.Context) (string, error) {
	files := map[string][]byte{}
	if err := b.addSample(files); err != nil {
		return "", err
	}
	var registered []string
	for i, cluster := range b.Options.Clusters {
		added, err := b.register(ctx, files, cluster, i == 0)
		if err != nil {
			return "", err
		}
		if added {
			registered = append(registered, cluster)
		}
	}
	if len(files) > 0 {
		if _, err := b.repo.Commit(ctx, "Register the local clusters", files); err != nil {
			return "", err
		}
	}
	for _, cluster := range registered { // not before the commit: keys that git does not know are good for nothing
		if err := replaceFile(b.registration(cluster), []byte(b.hubURL), 0o600); err != nil {
			return "", fmt.Errorf("note registration of %s: %w", cluster, err)
		}
	}
	var err error
	if b.head, err = b.repo.Push(ctx); err != nil {
		return "", err
	}
	for _, cluster := range b.Options.Clusters {
		command := append(slices.Clone(b.Agent),
			"--kubeconfig", b.Kubeconfig(cluster), "--data", b.agentDir(cluster),
			"--listen", "127.0.0.1:0", "--heal-interval", "5s", "--with-parent")
		if err := b.processes().Set(supervise.Process{Name: agentPart + cluster, Command: command}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d registered and started", len(b.Options.Clusters)), nil
}

// registration is the file that says at which hub a cluster is registered.
func (f Fleet) registration(cluster string) string {
	return filepath.Join(f.clusterDir(cluster), "registered")
}

// register adds a cluster's file to files, unless the cluster knows its keys and this hub, and the repo knows the cluster.
func (b *bringUp) register(ctx context.Context, files map[string][]byte, cluster string, management bool) (added bool, err error) {
	path := register.Path(cluster)
	file, err := os.ReadFile(filepath.Join(b.Repo, path))
	if err != nil && !os.IsNotExist(err) {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	if hub, err := os.ReadFile(b.registration(cluster)); err == nil && string(hub) == b.hubURL && file != nil {
		return false, nil
	}
	if err := os.Remove(b.registration(cluster)); err != nil && !os.IsNotExist(err) {
		return false, fmt.Errorf("forget registration of %s: %w", cluster, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.Kubeconfig(cluster))
	if err != nil {
		return false, fmt.Errorf("read kubeconfig of %s: %w", cluster, err)
	}
	kube, err := dynamic.NewForConfig(config)
	if err != nil {
		return false, fmt.Errorf("connect to %s: %w", cluster, err)
	}
	role := "edge"
	if management {
		role = "management"
	}
	request := register.Request{Cluster: cluster, HubURL: b.hubURL, Tags: map[string]string{"env": "local", "role": role}}
	if files[path], err = register.Cluster(ctx, kube, request, file); err != nil {
		return false, err
	}
	return true, nil
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
	sample, err := templates.Render(templates.Sample, nil)
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
