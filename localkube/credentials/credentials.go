// Package credentials owns the secrets of one local cluster.
//
// It refuses to know who uses them: it makes key material once, keeps it in a
// folder, and tells where each file lies.
//
// Data passes through like this: Load returns what the folder holds; for a new
// cluster it first issues everything into a folder beside it and renames that into
// place, so that a half-written set is never used. The key of each issuing
// authority is thrown away after it has signed its one certificate.
package credentials

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	folder = "pki"

	authorityFile      = "ca.crt"
	servingCertFile    = "serving.crt"
	servingKeyFile     = "serving.key"
	serviceAccountFile = "service-account.key"
	tokensFile         = "tokens.csv"

	// Of the API server as a client of kubelets, which start anew with the cluster, as does this.
	kubeletClientCertFile = "kubelet-client.crt"
	kubeletClientKeyFile  = "kubelet-client.key"

	administrator = "admin"
)

// Set is the key material of one cluster. The fields that end in File are
// absolute paths of files readable by their owner only.
type Set struct {
	AuthorityFile      string // certificate that signed the serving certificate, PEM
	ServingCertFile    string // PEM
	ServingKeyFile     string // PEM
	ServiceAccountFile string // private key that signs service account tokens, PEM
	TokensFile         string // static tokens, as kube-apiserver reads them

	// What the API server shows to kubelets, PEM.
	KubeletClientCertFile string
	KubeletClientKeyFile  string
	KubeletClientIssuer   []byte // certificate that signed KubeletClientCertFile and nothing else, PEM

	Authority []byte // content of AuthorityFile
	Token     string // bearer token of a member of system:masters
}

// Load reads the set kept under root, issuing it first when there is none. What the API server shows to kubelets is
// issued each time.
func Load(root *os.Root) (Set, error) {
	if _, err := root.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if err := create(root); err != nil {
			return Set{}, err
		}
	}
	authority, err := root.ReadFile(filepath.Join(folder, authorityFile))
	if err != nil {
		return Set{}, fmt.Errorf("read authority: %w", err)
	}
	tokens, err := root.ReadFile(filepath.Join(folder, tokensFile))
	if err != nil {
		return Set{}, fmt.Errorf("read tokens: %w", err)
	}
	token, _, found := strings.Cut(string(tokens), ",")
	if !found {
		return Set{}, fmt.Errorf("read token from %s: no comma in it; remove the folder %s to start afresh", tokensFile, folder)
	}
	kubeletClient, err := renewKubeletClient(root)
	if err != nil {
		return Set{}, err
	}
	at := func(name string) string { return filepath.Join(root.Name(), folder, name) }
	return Set{
		AuthorityFile:      at(authorityFile),
		ServingCertFile:    at(servingCertFile),
		ServingKeyFile:     at(servingKeyFile),
		ServiceAccountFile: at(serviceAccountFile),
		TokensFile:         at(tokensFile),

		KubeletClientCertFile: at(kubeletClientCertFile),
		KubeletClientKeyFile:  at(kubeletClientKeyFile),
		KubeletClientIssuer:   kubeletClient.authority,

		Authority: authority,
		Token:     token,
	}, nil
}

// renewKubeletClient replaces the API server's certificate for kubelets in the folder of the set.
func renewKubeletClient(root *os.Root) (issued, error) {
	client, err := issueKubeletClient()
	if err != nil {
		return issued{}, err
	}
	for name, content := range map[string][]byte{kubeletClientCertFile: client.certificate, kubeletClientKeyFile: client.key.pem} {
		if err := root.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return issued{}, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return client, nil
}

// create issues a whole set and puts it in place with one rename.
func create(root *os.Root) error {
	serving, err := issueServing()
	if err != nil {
		return err
	}
	serviceAccount, err := newKey()
	if err != nil {
		return err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("draw token: %w", err)
	}
	files := map[string][]byte{
		authorityFile:      serving.authority,
		servingCertFile:    serving.certificate,
		servingKeyFile:     serving.key.pem,
		serviceAccountFile: serviceAccount.pem,
		tokensFile:         fmt.Appendf(nil, "%s,%s,%s,\"system:masters\"\n", hex.EncodeToString(secret), administrator, administrator),
	}
	const unfinished = folder + ".tmp"
	if err := root.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("clear %s: %w", unfinished, err)
	}
	if err := root.Mkdir(unfinished, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", unfinished, err)
	}
	for name, content := range files {
		if err := root.WriteFile(filepath.Join(unfinished, name), content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := root.Rename(unfinished, folder); err != nil {
		return fmt.Errorf("put %s in place: %w", folder, err)
	}
	return nil
}
