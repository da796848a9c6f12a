package clusters

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Access is how one cluster is reached.
type Access struct {
	// Kubeconfig is the file that has the context, absolute; empty: what kubectl knows.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Context    string `json:"context"`
}

// Named is the way by one context, to be remembered. An empty context is the current one, an empty kubeconfig what kubectl knows;
// a process in a cluster that knows no context means its own, which nothing has to be remembered for.
func Named(kubeconfig, context string) (*rest.Config, Access, error) {
	rules, known, err := contexts(kubeconfig)
	if err != nil {
		return nil, Access{}, err
	}
	if context == "" {
		context = known.CurrentContext
	}
	if context == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, Access{}, nil
		}
		return nil, Access{}, &ContextError{
			Message:  "no context is the current one",
			Solution: "--context CONTEXT, or kubectl config use-context CONTEXT",
		}
	}
	if known.Contexts[context] == nil {
		return nil, Access{}, unknown(known, context)
	}
	config, err := configOf(rules, known, context)
	if err != nil {
		return nil, Access{}, err
	}
	return config, Access{Kubeconfig: fileOf(known, context), Context: context}, nil
}

// fileOf is the file that holds all of a context; empty when it is made of several.
func fileOf(known *clientcmdapi.Config, context string) string {
	c := known.Contexts[context]
	cluster, user := known.Clusters[c.Cluster], known.AuthInfos[c.AuthInfo]
	file := c.LocationOfOrigin
	if cluster == nil || cluster.LocationOfOrigin != file || user != nil && user.LocationOfOrigin != file {
		return ""
	}
	if abs, err := filepath.Abs(file); file != "" && err == nil {
		return abs
	}
	return ""
}

// config reaches the cluster that is remembered.
func (way Access) config(cluster string) (*rest.Config, error) {
	rules, known, err := contexts(way.Kubeconfig)
	if err == nil && known.Contexts[way.Context] != nil {
		return configOf(rules, known, way.Context)
	}
	return nil, &ContextError{
		Message:  fmt.Sprintf("it was reached by context %q, which is no longer there", way.Context),
		Solution: fmt.Sprintf("--context %s=CONTEXT", cluster), Err: err,
	}
}

// Remember keeps the way to a cluster, in place of an older one. Where Config is empty, or the way is, nothing is kept.
func (w Locator) Remember(cluster string, way Access) error {
	name, err := w.file(cluster)
	if err != nil || name == "" || way.Context == "" {
		return err
	}
	text, err := json.MarshalIndent(way, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err != nil {
		return fmt.Errorf("remember the way to cluster %s: %w", cluster, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".way-*") // which only its owner can read
	if err != nil {
		return fmt.Errorf("remember the way to cluster %s: %w", cluster, err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // best effort
		return fmt.Errorf("remember the way to cluster %s: %w", cluster, err)
	}
	return nil
}

// remembered is the zero Way for a cluster that nothing is remembered of.
func (w Locator) remembered(cluster string) (Access, error) {
	var way Access
	name, err := w.file(cluster)
	if err != nil || name == "" {
		return way, err
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return way, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &way)
	}
	if err != nil {
		return way, &ContextError{Message: fmt.Sprintf("read %s: %v", name, err), Solution: "delete the file", Err: err}
	}
	return way, nil
}

// file is where the way to a cluster is kept, one for each clone of a repo: one may be for another fleet of the same name.
func (w Locator) file(cluster string) (string, error) {
	if w.Config == "" {
		return "", nil
	}
	if problems := validation.IsDNS1123Label(cluster); len(problems) > 0 { // it becomes a file's name
		return "", fmt.Errorf("cluster name %q: %s", cluster, strings.Join(problems, ", "))
	}
	root, err := filepath.Abs(w.Root)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(w.Config, "clusters", filepath.Base(root)+"-"+hex.EncodeToString(sum[:4]), cluster+".json"), nil
}
