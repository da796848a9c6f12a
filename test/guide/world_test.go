package guide

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pluralsh/plural/test/support/issuer"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/test/support/podrun"
)

// stands has a name of the pages stand for something here.
func (s *shell) stands(name, forWhat string) {
	s.replacements = append(s.replacements, [2]string{name, forWhat})
}

// What opens the git host: a token that may read, and one that may push.
const (
	readToken = "fleet-reads"
	pushToken = "fleet-pushes"
)

// gitHost has https://git.example.com/acme with empty repositories.
func (s *shell) gitHost(repositories ...string) {
	s.t.Helper()
	s.gitHostAt("https://git.example.com", repositories...)
	s.write(".gitconfig", "[credential]\n\thelper = store\n") // the page's reader has a git that may push
	s.env = append(s.env, "READ_TOKEN="+readToken, "PUSH_TOKEN="+pushToken)
}

// gitHostAt has another one at a URL of the pages. Repositories that are named after "public:" may be read by everybody. The
// reader's git may push to all of them.
func (s *shell) gitHostAt(url string, repositories ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	var public []string
	for _, name := range repositories {
		name, open := strings.CutPrefix(name, "public:")
		if open {
			public = append(public, name)
		}
		bare := filepath.Join(dir, "acme", name+".git")
		for _, args := range [][]string{{"init", "--quiet", "--bare", "--initial-branch=main", bare}, {"-C", bare, "config", "http.receivepack", "true"}} {
			if out, err := exec.CommandContext(s.t.Context(), "git", args...).CombinedOutput(); err != nil {
				s.t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
	}
	backend := &cgi.Handler{
		Path: needs.Program(s.t, "git", "git"), Args: []string{"http-backend"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir, "REMOTE_USER=ada"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := os.Stat(s.lostMark(url)); err == nil {
			panic(http.ErrAbortHandler) // as a connection to nobody ends
		}
		_, token, _ := r.BasicAuth()
		writes := strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack"
		open := slices.ContainsFunc(public, func(name string) bool { return strings.HasPrefix(r.URL.Path, "/acme/"+name+".git/") })
		if token != pushToken && (writes || token != readToken && !open) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	s.t.Cleanup(server.Close)
	s.stands(url, server.URL)
	s.credentials += strings.Replace(server.URL, "http://", "http://ada:"+pushToken+"@", 1) + "\n"
	s.write(".git-credentials", s.credentials)
}

// loses has the git host at a URL answer nobody any more, from this command of the page on.
func (s *shell) loses(url, command string) {
	s.stands(command, "touch "+s.lostMark(url)+" && "+command)
}

func (s *shell) lostMark(url string) string { return filepath.Join(s.home, ".lost-"+path.Base(url)) }

// registry has one under a name of the pages, which wants no log-in.
func (s *shell) registry(name string) {
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo))))
	s.t.Cleanup(server.Close)
	s.stands(name, strings.TrimPrefix(server.URL, "http://"))
}

// release has the releases of the project, of which one is of the programs of this tree, in an archive for this machine.
func (s *shell) release(version string) {
	s.t.Helper()
	archive := fmt.Sprintf("plural_%s_linux_amd64.tar.gz", version)
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	if err != nil {
		s.t.Fatal(err)
	}
	tarred := tar.NewWriter(zipped)
	for _, name := range []string{"plural", "localkube"} {
		content, err := os.ReadFile(program(s.t, name))
		if err != nil {
			s.t.Fatal(err)
		}
		if err := tarred.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			s.t.Fatal(err)
		}
		if _, err := tarred.Write(content); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := errors.Join(tarred.Close(), zipped.Close()); err != nil {
		s.t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  %s\n%x  plural_%s_darwin_arm64.tar.gz\n",
		sha256.Sum256(packed.Bytes()), archive, sha256.Sum256(nil), version)
	script, err := os.ReadFile(filepath.Join(root, "install.sh"))
	if err != nil {
		s.t.Fatal(err)
	}
	releases := http.NewServeMux()
	server := httptest.NewServer(releases)
	s.t.Cleanup(server.Close)
	s.stands("https://github.com/pluralsh/plural/releases", server.URL)
	for name, content := range map[string][]byte{
		"download/v" + version + "/" + archive:                  packed.Bytes(),
		"download/v" + version + "/checksums.txt":               []byte(sums),
		"download/v" + version + "/checksums.txt.sigstore.json": []byte("{}"),
		"download/v" + version + "/install.sh":                  []byte(s.here(string(script))),
		"latest/download/checksums.txt":                         []byte(sums),
	} {
		releases.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	}
	// It stands for a cosign that takes the signature: nobody here can sign as the project's workflow. test/install has real signatures.
	s.write("bin/cosign", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(s.home, "bin", "cosign"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.env = append(s.env, "PATH="+filepath.Join(s.home, "bin")+":"+filepath.Dir(program(s.t, "plural"))+":"+os.Getenv("PATH"))
}

// clusters are real API servers in the reader's kubeconfig, each under the name of its context; pods of hub and agent run as
// processes of this machine. The first is where the hub comes to be, at the URL that pages give it.
func (s *shell) clusters(hubURL string, contexts ...string) {
	s.t.Helper()
	merged := clientcmdapi.NewConfig()
	for i, name := range contexts {
		cluster := kubetest.StartApart(s.t)
		node := podrun.Start(s.t, podrun.Options{Kube: cluster.RESTConfig, Programs: []podrun.Program{
			{Image: "ghcr.io/pluralsh/plural", Command: []string{program(s.t, "plural")}, Args: []string{"--with-parent"}},
			{Image: "ghcr.io/pluralsh/plural-agent", Command: []string{program(s.t, "plural-agent")}, Args: []string{"--kubeconfig=$(KUBECONFIG)", "--with-parent"}},
		}})
		if i == 0 {
			s.stands(hubURL, "http://"+node.ServiceAddress("plural-system", "plural-hub", 80))
		}
		one, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
		if err != nil {
			s.t.Fatal(err)
		}
		its := one.Contexts[one.CurrentContext]
		merged.Clusters[name], merged.AuthInfos[name] = one.Clusters[its.Cluster], one.AuthInfos[its.AuthInfo]
		merged.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	merged.CurrentContext = contexts[0]
	if err := clientcmd.WriteToFile(*merged, filepath.Join(s.home, ".kube", "config")); err != nil {
		s.t.Fatal(err)
	}
}

// hurry has a hub look every second, where one in use waits for webhooks or some minutes, and go without waiting for those who
// leave it. Git hosts of tests are on this machine.
const hurry = "--allow-loopback,--interval=1s,--poll-interval=1s,--report-interval=2s,--drain-delay=0s,--drain-grace=1s"

// oneself answers what a person on a terminal is asked, and has what GitHub would be.
func (s *shell) oneself() {
	s.write("reads/username", "fleet-hub")
	s.write("reads/password", readToken)
	s.write("pushes/username", "fleet-hub")
	s.write("pushes/password", pushToken)
	if out, err := s.run("age-keygen -o bob.key && age-keygen -y bob.key > bob.pub"); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	for _, r := range [][2]string{
		{"make demo", "plural up --local ~/plural-demo"},
		{"plural undo", "plural undo --yes"},
		{"--github acme/fleet", "--repo-url https://git.example.com/acme/fleet.git " +
			"--repo-credentials ~/reads --edit-credentials ~/pushes --set hub.edits=true --set hub.ingress=true --set hub.host=hub.example.com --set hub.flags=" + hurry + " --yes"},
		{"--tag env=prod", "--tag env=prod --yes"},
		{"plural deploy", "plural deploy --yes"},
		{"plural package publish", "plural package publish --plain-http"},
		{"gh:bob", "~/bob.pub --yes"},
		{"plural auth token create ada", "plural auth token create ada > ~/ada.token"},
		{"plural auth login", "plural auth login --with-token < ~/ada.token"},
	} {
		s.replacements = append([][2]string{r}, s.replacements...) // for these speak of what others stand for
	}
}

// fast has the hub of plural up hurry.
func (s *shell) fast() {
	s.stands("--set hub.edits=true", "--set hub.edits=true --set hub.flags="+hurry)
}

// downAfterwards ends the local fleets that a page leaves behind when it fails.
func (s *shell) downAfterwards(dirs ...string) {
	plural := program(s.t, "plural")
	s.t.Cleanup(func() {
		for _, dir := range dirs {
			if _, err := os.Stat(filepath.Join(s.home, dir)); err != nil {
				continue
			}
			ctx := context.WithoutCancel(s.t.Context())
			cmd := exec.CommandContext(ctx, plural, "down", filepath.Join(s.home, dir))
			cmd.Env, cmd.Dir = s.env, s.home
			_ = cmd.Run() // it may be down
		}
	})
}

// job has the reader's shell be a job at GitHub, which gives it tokens with these claims for whom it asks.
func (s *shell) job(claims map[string]any) {
	s.t.Helper()
	const bearer = "the-jobs-own"
	github := issuer.StartAt(s.t, "/_services/token") // as GitHub Enterprise Server has it
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+bearer {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		token := github.Token(github.Claims("repo:acme/fleet:environment:fleet", r.URL.Query().Get("audience"), time.Now(), claims))
		_ = json.NewEncoder(w).Encode(map[string]any{"count": 1, "value": token}) // a job that went away asks again
	}))
	s.t.Cleanup(server.Close)
	s.stands("https://token.actions.githubusercontent.com", github.URL)
	s.env = append(s.env, "ACTIONS_ID_TOKEN_REQUEST_URL="+server.URL+"/?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN="+bearer)
}
