package credentials

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig encodes a kubeconfig that reaches server, a URL, as administrator.
// Context, cluster and user carry the given name.
func (s Set) Kubeconfig(name, server string) ([]byte, error) {
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: s.Authority}
	config.AuthInfos[name] = &api.AuthInfo{Token: s.Token}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return content, nil
}
