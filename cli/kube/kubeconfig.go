package kube

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/pluralsh/plural/cli/apiproxy"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// prefix sets our entries apart from others in one file.
	prefix = "plural/"
	// maxFile bounds a kubeconfig, in bytes.
	maxFile = 16 << 20

	installHint = "Install plural: https://github.com/pluralsh/plural  then run: plural auth login"
)

// contextName is what a cluster's context, cluster and user are called.
func contextName(cluster string) string { return prefix + cluster }

// entriesFor are contexts in which tools speak to the hub themselves, and run command for a token. They hold no secret.
func entriesFor(f *cmdutil.Factory, hub *client.Client, command string, clusters []string) (*clientcmdapi.Config, error) {
	certificates, err := f.HubCA()
	if err != nil {
		return nil, err
	}
	var environment []clientcmdapi.ExecEnvVar
	if certificates != nil {
		file, err := filepath.Abs(f.Getenv("PLURAL_CA_FILE"))
		if err != nil {
			return nil, err
		}
		environment = append(environment, clientcmdapi.ExecEnvVar{Name: "PLURAL_CA_FILE", Value: file})
	}
	config := clientcmdapi.NewConfig()
	for _, name := range clusters {
		entry := contextName(name)
		config.Clusters[entry] = &clientcmdapi.Cluster{Server: apiproxy.Server(hub, name), CertificateAuthorityData: certificates}
		config.Contexts[entry] = &clientcmdapi.Context{Cluster: entry, AuthInfo: entry}
		config.AuthInfos[entry] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			APIVersion: clientauthentication.SchemeGroupVersion.String(),
			Command:    command, Args: []string{"kube", "token", name, "--hub", hub.Address()}, Env: environment,
			InteractiveMode: clientcmdapi.IfAvailableExecInteractiveMode, InstallHint: installHint,
		}}
	}
	return config, nil
}

// behind is a kubeconfig for a door.
func behind(url, cluster string) *clientcmdapi.Config {
	config, entry := clientcmdapi.NewConfig(), contextName(cluster)
	config.Clusters[entry] = &clientcmdapi.Cluster{Server: url}
	config.Contexts[entry] = &clientcmdapi.Context{Cluster: entry}
	config.CurrentContext = entry
	return config
}

// merge puts the entries into config. Those of config that are of the same hub, and not among the entries, go if only is
// true. An entry of config that is in the way, because it leads to another hub, is an error, unless replace is true.
func merge(config, entries *clientcmdapi.Config, hub *client.Client, only, replace bool) error {
	for name, cluster := range entries.Clusters {
		if old, ok := config.Clusters[name]; ok && !replace && old.Server != cluster.Server {
			return &ui.Err{
				Msg: fmt.Sprintf("context %s leads to %s", name, hostOf(old.Server)),
				Fix: "write another file: --kubeconfig FILE; or replace it: --yes", Doc: ui.DocKubeconfig,
			}
		}
	}
	for name, cluster := range config.Clusters {
		_, kept := entries.Clusters[name]
		if only && !kept && strings.HasPrefix(name, prefix) && strings.HasPrefix(cluster.Server, apiproxy.Server(hub, "")) {
			delete(config.Clusters, name)
			delete(config.Contexts, name)
			delete(config.AuthInfos, name)
			if config.CurrentContext == name {
				config.CurrentContext = ""
			}
		}
	}
	for name := range entries.Clusters {
		config.Clusters[name], config.AuthInfos[name] = entries.Clusters[name], entries.AuthInfos[name]
		namespace := ""
		if old, ok := config.Contexts[name]; ok {
			namespace = old.Namespace // the person's own choice
		}
		config.Contexts[name] = entries.Contexts[name]
		config.Contexts[name].Namespace = namespace
	}
	return nil
}

// hostOf is where a server is, without what an address may carry beside.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "another server"
	}
	return u.Host
}

// read is the kubeconfig in a file; an empty one where there is none.
func read(file string) (*clientcmdapi.Config, error) {
	r, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return clientcmdapi.NewConfig(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		// The parser's own words could quote the file, and so a credential.
		return nil, &ui.Err{
			Msg: file + " cannot be read as a kubeconfig", Fix: "mend it, or write another file: --kubeconfig FILE", Doc: ui.DocKubeconfig,
		}
	}
	return config, nil
}

// write makes file a kubeconfig that only its owner reads, as a whole or not at all. A file that a link leads to is replaced,
// not the link.
func write(file string, config *clientcmdapi.Config) error {
	text, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	// CreateTemp makes files that only their owner can read.
	temp, err := os.CreateTemp(filepath.Dir(file), ".plural-kubeconfig-*")
	if err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// locked runs do while no other tool changes file: kubectl keeps to the same lock.
func locked(file string, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("lock kubeconfig: %w", err)
	}
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, fs.ErrExist) {
		return &ui.Err{
			Msg: "another program is changing " + file, Fix: "try again; if none is, remove " + file + ".lock", Doc: ui.DocKubeconfig, Err: err,
		}
	}
	if err != nil {
		return fmt.Errorf("lock kubeconfig: %w", err)
	}
	err = errors.Join(lock.Close(), do())
	return errors.Join(err, os.Remove(lock.Name()))
}
