package credentials_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/localkube/credentials"
)

func load(t *testing.T, dir string) credentials.Set {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	set, err := credentials.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestLoadKeepsWhatItIssued(t *testing.T) {
	dir := t.TempDir()
	first, second := load(t, dir), load(t, dir)
	first.KubeletClientIssuer, second.KubeletClientIssuer = nil, nil // of one run
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("second Load differs (-first +second):\n%s", diff)
	}
	if other := load(t, t.TempDir()); other.Token == first.Token {
		t.Error("two clusters have the same token")
	}
}

func TestLoadStartsOverAfterAnInterruption(t *testing.T) {
	dir := t.TempDir()
	unfinished := filepath.Join(dir, "pki.tmp")
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unfinished, "ca.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	load(t, dir)
	if _, err := os.Stat(unfinished); err == nil {
		t.Error("unfinished set is still there")
	}
}

func TestServingCertificateIsTrustedByTheAuthorityForYears(t *testing.T) {
	set := load(t, t.TempDir())
	pair, err := tls.LoadX509KeyPair(set.ServingCertFile, set.ServingKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(set.Authority)
	for _, name := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{
			DNSName:     name,
			Roots:       authorities,
			CurrentTime: time.Now().AddDate(9, 0, 0),
		}); err != nil {
			t.Errorf("for %s: %v", name, err)
		}
	}
}

func TestSecretsAreReadableByTheirOwnerOnly(t *testing.T) {
	set := load(t, t.TempDir())
	for _, file := range []string{set.KubeletClientKeyFile, set.ServingKeyFile, set.ServiceAccountFile, set.TokensFile} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(file), info.Mode().Perm())
		}
	}
}

func TestKubeconfigReachesTheServerAsAdministrator(t *testing.T) {
	set := load(t, t.TempDir())
	content, err := set.Kubeconfig("dev", "https://127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:6443" || config.BearerToken != set.Token || string(config.CAData) != string(set.Authority) {
		t.Errorf("kubeconfig leads to %s", config.Host)
	}
}

func TestKubeletsAcceptTheAPIServerOfThisRunAlone(t *testing.T) {
	dir := t.TempDir()
	earlier := load(t, dir)
	before, err := tls.LoadX509KeyPair(earlier.KubeletClientCertFile, earlier.KubeletClientKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	set := load(t, dir)
	now, err := tls.LoadX509KeyPair(set.KubeletClientCertFile, set.KubeletClientKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	config, err := set.KubeletTLS()
	if err != nil {
		t.Fatal(err)
	}
	if config.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("clients are asked for a certificate as %v", config.ClientAuth)
	}
	options := x509.VerifyOptions{Roots: config.ClientCAs, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := now.Leaf.Verify(options); err != nil {
		t.Errorf("the API server is refused: %v", err)
	}
	if _, err := before.Leaf.Verify(options); err == nil {
		t.Error("a certificate of an earlier run is accepted")
	}
	if _, err := config.Certificates[0].Leaf.Verify(options); err == nil {
		t.Error("the serving certificate is accepted of a client")
	}
}
