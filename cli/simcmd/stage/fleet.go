// Package stage owns the made-up fleet and the hub of a simulation, and the measuring of its costs.
//
// It refuses to know the agents and the order of events.
//
// Make writes a Fleet's repo with its bare origin by the git program; Commit changes services in it. Start runs a hub on
// the origin (hub.go); Usage is what the system says of its process (usage.go).
package stage

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pluralsh/plural/internal/gitexec"
)

// Fleet is what is made up. Equal fleets give equal files.
type Fleet struct {
	// Clusters is how many there are, and Services how many each runs: half of them on every cluster, half by its tags.
	Clusters, Services int
	// Profiles is how many sets there are of the services that tags select.
	Profiles int
	// BundleBytes is about how large a service's bundle is.
	BundleBytes int
	// HubURL is how the agents know the hub.
	HubURL string
	// Seed is what keys and contents are drawn from. Whoever knows it can be any agent of the fleet.
	Seed string
}

// Cluster is the name of a cluster.
func (f Fleet) Cluster(i int) string { return fmt.Sprintf("c-%05d", i) }

// Key is a cluster's agent's key.
func (f Fleet) Key(i int) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("agent\x00" + f.Seed + "\x00" + f.Cluster(i)))
	return ed25519.NewKeyFromSeed(seed[:])
}

// common is how many services run on every cluster.
func (f Fleet) common() int { return (f.Services + 1) / 2 }

// Names lists all services; the first of them runs on every cluster.
func (f Fleet) Names() []string {
	var names []string
	for i := range f.common() {
		names = append(names, fmt.Sprintf("s-%02d", i))
	}
	for p := range f.Profiles {
		for i := range f.Services - f.common() {
			names = append(names, fmt.Sprintf("p%d-s-%02d", p, i))
		}
	}
	return names
}

// files is the whole repository.
func (f Fleet) files() map[string]string {
	files := map[string]string{"plural.yaml": document("Workspace", "sim",
		"hub: {url: "+strconv.Quote(f.HubURL)+"}", "repo: {branch: main}")}
	for i := range f.Clusters {
		public, _ := f.Key(i).Public().(ed25519.PublicKey)
		files["clusters/"+f.Cluster(i)+".yaml"] = document("Cluster", f.Cluster(i),
			fmt.Sprintf("tags: {profile: p%d, region: r%d, stage: %s}", i%f.Profiles, i%7, []string{"dev", "prod", "prod"}[i%3]),
			fmt.Sprintf("parameters: {domain: r%d.example.com}", i%7),
			"agent: {auth: \"ed25519:"+base64.StdEncoding.EncodeToString(public)+"\"}")
	}
	for i, name := range f.Names() {
		selector := "matchExpressions: [{key: profile, operator: Exists}]"
		if profile, _, ok := strings.Cut(name, "-s-"); ok {
			selector = "matchLabels: {profile: " + profile + "}"
		}
		parameters := `replicas: "2"`
		switch i % 5 {
		case 0: // a value of its own on every cluster, as host names are
			parameters = `host: "` + name + `.{{ .cluster.name }}.{{ .cluster.parameters.domain }}"`
		case 1, 2:
			parameters = `region: "{{ .cluster.tags.region }}"`
		}
		files["services/"+name+".yaml"] = document("Service", name,
			"source: {path: apps/"+name+"}", "namespace: "+name, "clusters: {"+selector+"}", "parameters: {"+parameters+"}")
		for file, text := range f.service(name, 0) {
			files[file] = text
		}
	}
	return files
}

// service is a service's folder in one of its revisions.
func (f Fleet) service(name string, revision int) map[string]string {
	dir := "apps/" + name + "/"
	return map[string]string{
		dir + "kustomization.yaml": "resources: [deployment.yaml, service.yaml, config.yaml]\nnamespace: " + name + "\n",
		dir + "deployment.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers:
      - name: main
        image: registry.example.com/%[1]s:1.%[2]d.0
        ports: [{containerPort: 8080, name: http}]
        envFrom: [{configMapRef: {name: %[1]s}}]
`, name, revision),
		dir + "service.yaml": fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: http}]}\n", name),
		dir + "config.yaml":  fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  blob: %s\n", name, f.noise(name)),
	}
}

// noise is text that does not compress, so that a bundle is as large as it is meant to be.
func (f Fleet) noise(name string) string {
	sum := sha256.Sum256([]byte(f.Seed + "\x00" + name))
	raw := make([]byte, f.BundleBytes*3/4)
	_, _ = rand.NewChaCha8(sum).Read(raw) // never fails
	return base64.StdEncoding.EncodeToString(raw)
}

func document(kind, name string, spec ...string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec:\n  " + strings.Join(spec, "\n  ") + "\n"
}

// Repo is a fleet's repository: a work tree with its origin.
type Repo struct {
	fleet Fleet
	// Work and Origin are folders; Origin is bare.
	Work, Origin string
	revision     int
}

// Make writes a fleet's repository below dir, which must not hold one.
func Make(ctx context.Context, dir string, f Fleet) (*Repo, error) {
	r := &Repo{fleet: f, Work: filepath.Join(dir, "fleet"), Origin: filepath.Join(dir, "fleet.git")}
	if err := os.Mkdir(r.Work, 0o755); err != nil {
		return nil, fmt.Errorf("make installation repo: %w", err)
	}
	if err := r.write(f.files()); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "-A"},
		{"commit", "-qm", "Make up a fleet"},
		{"init", "-q", "--bare", "-b", "main", r.Origin},
		{"remote", "add", "origin", r.Origin},
		{"push", "-q", "origin", "main"},
	} {
		if err := r.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Open is the repository of a fleet that was made before, whose work tree is at the given folder.
func Open(work string, f Fleet) *Repo { return &Repo{fleet: f, Work: work} }

// Commit gives the named services a new revision, and pushes it.
func (r *Repo) Commit(ctx context.Context, services ...string) error {
	r.revision = max(r.revision+1, int(time.Now().Unix())) // greater than any before, in runs before too
	for _, name := range services {
		if err := r.write(r.fleet.service(name, r.revision)); err != nil {
			return err
		}
	}
	return errors.Join(
		r.git(ctx, "commit", "-qam", fmt.Sprintf("Update %d services to revision %d", len(services), r.revision)),
		r.git(ctx, "push", "-q", "origin", "main"))
}

func (r *Repo) write(files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(r.Work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write installation repo: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write installation repo: %w", err)
		}
	}
	return nil
}

// git runs the git program in the work tree, by no settings but these.
func (r *Repo) git(ctx context.Context, args ...string) error {
	_, err := gitexec.Call{Dir: r.Work, Args: args, Env: []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=sim", "GIT_AUTHOR_EMAIL=sim@example.com", "GIT_COMMITTER_NAME=sim", "GIT_COMMITTER_EMAIL=sim@example.com",
	}}.Run(ctx)
	return err
}
