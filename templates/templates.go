// Package templates owns the files of a new installation repo or a new cluster.
//
// It refuses to know disks, git and API servers: what it gives out are names and bytes.
//
// A scaffold is a folder embedded in the binary. Render walks it in order of path; a file named NAME.tmpl is a
// text/template over the given values, in which a missing value is an error, never an empty string; a file named
// NAME.block is a part of NAME that is kept inside whatever else stands there. The same values give the same bytes.
package templates

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"text/template"
)

//go:embed all:catalog all:installation all:sample
var scaffolds embed.FS

// Installation is the scaffold of an installation repo. Its values are name, hubURL, repoURL, branch and management; an empty one
// leaves its lines out.
const Installation = "installation"

// Sample is a first service for a fleet that has none: Files gives it, since its templates are for the render of the service.
const Sample = "sample"

// agentManifests lie in the agent's chart, which gives them out as the scaffolds below do.
const agentManifests = "catalog/agent/chart/manifests"

// What an agent may do in its cluster, as manifests; docs/spec/agent-role.md says why. AgentRole is the least that every
// agent needs. The others are added by whoever wants them: AgentSecrets for services that own Secrets; AgentImpersonate, whose
// values are namespace and account, for each service account that services name; AgentDeploy for services that name none; AgentAdmin
// for all of a cluster; AgentReach for people who reach the cluster by the hub.
const (
	AgentRole        = agentManifests + "/role"
	AgentSecrets     = agentManifests + "/secrets"
	AgentImpersonate = agentManifests + "/impersonate"
	AgentDeploy      = agentManifests + "/deploy"
	AgentAdmin       = agentManifests + "/admin"
	AgentReach       = agentManifests + "/reach"
)

// Operators is what lets the hub's operators be a cluster's administrators, when they reach it through the hub.
const Operators = agentManifests + "/operators"

// Catalog is the embedded catalog of packages: a folder each, by name, with its package.yaml.
func Catalog() fs.FS {
	catalog, err := fs.Sub(scaffolds, "catalog")
	if err != nil {
		panic(err) // the name is a constant
	}
	return catalog
}

// File is one file of a scaffold.
type File struct {
	// Path is slash-separated and relative to the repository's root.
	Path    string
	Content []byte
	// Block says that Content is a managed block within the file, not the file.
	Block bool
}

// Block are the lines that every installation repo has in a file's managed block, such as .gitattributes.
func Block(name string) ([]byte, error) {
	return fs.ReadFile(scaffolds, Installation+"/"+name+".block")
}

// Render gives a scaffold's files, sorted by path.
func Render(scaffold string, values map[string]string) ([]File, error) {
	return walk(scaffold, func(root fs.FS, path string) (File, error) { return render(root, path, values) })
}

// Files gives a scaffold's files as they lie there, sorted by path.
func Files(scaffold string) ([]File, error) {
	return walk(scaffold, func(root fs.FS, path string) (File, error) {
		text, err := fs.ReadFile(root, path)
		return File{Path: path, Content: text}, err
	})
}

// walk makes a file of each that a scaffold has.
func walk(scaffold string, of func(root fs.FS, path string) (File, error)) ([]File, error) {
	root, err := fs.Sub(scaffolds, scaffold)
	if err != nil {
		return nil, fmt.Errorf("open scaffold %q: %w", scaffold, err)
	}
	var files []File
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := of(root, path)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("render scaffold %q: %w", scaffold, err)
	}
	return files, nil
}

func render(root fs.FS, path string, values map[string]string) (File, error) {
	text, err := fs.ReadFile(root, path)
	if err != nil {
		return File{}, err
	}
	path, block := strings.CutSuffix(path, ".block")
	path, templated := strings.CutSuffix(path, ".tmpl")
	if templated {
		text, err = execute(path, string(text), values)
	}
	return File{Path: path, Content: text, Block: block}, err
}

func execute(name, text string, values map[string]string) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{"quote": quote}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, values)
	return b.Bytes(), err
}

// quote makes a YAML scalar of s that is s again when read, whatever s holds.
func quote(s string) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}
