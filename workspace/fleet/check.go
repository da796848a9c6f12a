package fleet

import (
	"encoding/base64"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/internal/selector"
	"github.com/pluralsh/plural/internal/yamlstrict"
)

// longestSecretType bounds the type of a Kubernetes Secret, in characters.
const longestSecretType = 253

// lazily compiles a pattern when it is asked for first: those that count to hundreds take a megabyte, and every start of a program
// would wait for them.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var (
	// secretType is the type of a Kubernetes Secret: a word, which may stand under a domain.
	secretType = lazily(`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?$`)
	// shortSSH is user@host:path.
	shortSSH = lazily(`^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^:\s]\S*$`)
)

func (d *document) checkWorkspace(w *Workspace) {
	d.checkName("metadata.name", w.Metadata.Name)
	d.checkBudget("spec.deletionBudget", w.Spec.DeletionBudget)
	d.checkTokens("spec.acknowledged", w.Spec.Acknowledged)
	d.checkDefaults(w.Spec.Defaults)
	d.checkHealth("spec.health", w.Spec.Health)
	d.checkPlugins(w.Spec.Plugins)
	d.checkCatalogs(w.Spec.Catalogs)
	d.checkRef("spec.repo.branch", w.Spec.Repo.Branch)
	d.checkGitURL("spec.repo.url", w.Spec.Repo.URL)
	d.checkURL("spec.hub.url", w.Spec.Hub.URL, "https", "http")
	d.checkFilePath("spec.hub.signingKeys", w.Spec.Hub.SigningKeys)
}

func (d *document) checkDefaults(defaults Defaults) {
	const at = "spec.defaults.sync"
	d.checkSync(at, defaults.Sync)
	if len(defaults.Sync.Acknowledged) > 0 {
		d.Fault(at+".acknowledged", "write it into the service's own file", "deletions are agreed to service by service")
	}
}

func (d *document) checkCluster(c *Cluster) {
	d.checkName("metadata.name", c.Metadata.Name)
	d.checkJoin(c.Spec.Join)
	const prefix, size = "ed25519:", 32
	if auth := c.Spec.Agent.Auth; auth != "" {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(auth, prefix))
		if err != nil || len(key) != size || !strings.HasPrefix(auth, prefix) {
			d.Fault("spec.agent.auth", `register the cluster with "plural cluster register"`, "not a public key of the form ed25519:BASE64")
		}
	}
	if age := c.Spec.Agent.Age; age != "" && !strings.HasPrefix(age, "age1") {
		d.Fault("spec.agent.age", `register the cluster with "plural cluster register"`, "not an age recipient of the form age1...")
	}
}

func (d *document) checkService(s *Service) {
	d.checkName("metadata.name", s.Metadata.Name)
	d.checkSourceRef("spec.source", s.Spec.Source)
	d.checkMounts(s.Spec.Mounts)
	d.checkRenderer(s.Spec)
	if s.Spec.Namespace != "" {
		d.checkName("spec.namespace", s.Spec.Namespace)
	}
	for i, p := range s.Spec.Include {
		d.checkPath(index("spec.include", i), p)
	}
	d.checkExclude(s.Spec.Exclude)
	for i, r := range s.Spec.Clusters.MatchExpressions {
		d.checkRequirement(index("spec.clusters.matchExpressions", i), r)
	}
	d.checkSecrets(s.Spec.Secrets)
	d.checkAccount("spec.serviceAccount", s.Spec.ServiceAccount)
	d.checkNamespaces(s.Spec)
	d.checkDependsOn(s.Spec.DependsOn)
	d.checkSync("spec.sync", s.Spec.Sync)
	d.checkHealth("spec.health", s.Spec.Health)
	d.checkTests(s.Spec.Tests)
}

// checkSecrets looks at what a service says of its secrets. Whether the files are there, and sealed, is for others.
func (d *document) checkSecrets(secrets []SecretRef) {
	first := map[string]int{}
	for i, ref := range secrets {
		at := index("spec.secrets", i)
		d.checkName(at+".name", ref.Name)
		d.checkPath(at+".from", ref.From)
		if n, taken := first[ref.Name]; taken && ref.Name != "" {
			d.Fault(at+".name", "rename one of them", "a second secret named %s; the other is spec.secrets[%d]", yamlstrict.Quote(ref.Name), n)
		} else {
			first[ref.Name] = i
		}
		switch {
		case ref.Type == "":
		case ref.TemplateOnly:
			d.Fault(at+".type", "remove it, or remove templateOnly", "a type for a secret that no Kubernetes Secret is made of")
		case len(ref.Type) > longestSecretType || !secretType().MatchString(ref.Type):
			d.Fault(at+".type", "write Opaque, kubernetes.io/tls or another type of Secret", "bad type %s", yamlstrict.Quote(ref.Type))
		}
	}
}

// checkSourceRef looks at what needs no look at the source; checkUse does the rest.
func (d *document) checkSourceRef(at string, s SourceRef) {
	d.checkPath(at+".path", s.Path)
	if s.Name == "" && s.Ref != "" {
		d.Fault(at+".ref", "name a source, or remove the ref", "ref without a source: this repository is always read at one commit")
	}
}

// Bounds of what a service leaves out: each pattern is tried on each file.
const (
	maxExclude     = 100
	longestExclude = 256
)

// checkExclude wants patterns that a .gitignore could hold.
func (d *document) checkExclude(patterns []string) {
	if len(patterns) > maxExclude {
		d.Fault(index("spec.exclude", maxExclude), "name folders in the place of files", "more than %d patterns", maxExclude)
	}
	for i, p := range patterns {
		at := index("spec.exclude", i)
		_, err := path.Match(strings.TrimPrefix(p, "!"), "")
		switch {
		case strings.Trim(p, "!/ ") == "" || len(p) > longestExclude || err != nil:
			d.Fault(at, `write it as in a .gitignore: "*.md", "/ci/", "!keep.yaml"`, "bad pattern %s", yamlstrict.Quote(p))
		case slices.Contains(strings.Split(p, "/"), ".."):
			d.Fault(at, "patterns are relative to source.path: name another folder there", "pattern %s leaves the service's folder", yamlstrict.Quote(p))
		case strings.Contains(strings.ReplaceAll("/"+strings.TrimPrefix(p, "!")+"/", "/**/", "/"), "**"):
			d.Fault(at, "** stands alone between slashes, for any number of folders", "bad pattern %s", yamlstrict.Quote(p))
		}
	}
}

// maxMounts bounds what one service can make the hub and its agents hold in memory.
const maxMounts = 8

// checkMounts wants folders that do not hide each other.
func (d *document) checkMounts(mounts []Mount) {
	if len(mounts) > maxMounts {
		d.Fault(index("spec.mounts", maxMounts), "put what belongs together in one repository", "more than %d mounts", maxMounts)
	}
	for i, m := range mounts {
		at := index("spec.mounts", i)
		d.checkSourceRef(at+".source", m.Source)
		d.checkPath(at+".at", m.At)
		if m.At != "" && path.Clean(m.At) == "." {
			d.Fault(at+".at", "name a folder that is not there", "a mount at the root would hide the service's own files")
			continue
		}
		for j, other := range mounts[:i] {
			if m.At != "" && other.At != "" && (within(m.At, other.At) || within(other.At, m.At)) {
				d.Fault(at+".at", "name another folder", "mount at %s, which shares files with spec.mounts[%d] at %s", yamlstrict.Quote(m.At), j, yamlstrict.Quote(other.At))
				break
			}
		}
	}
}

// within says whether a path is a folder or lies in it.
func within(name, dir string) bool {
	name, dir = path.Clean(name), path.Clean(dir)
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// builtin says whether a renderer needs no plugin.
func builtin(renderer string) bool { return slices.Contains(builtins(), renderer) }

func builtins() []string { return []string{"raw", "kustomize", "helm"} }

// checkRenderer looks at what needs no look at the workspace; whether a plugin is declared is checked across files.
func (d *document) checkRenderer(s ServiceSpec) {
	if s.Helm == nil {
		return
	}
	if s.Renderer != "" && s.Renderer != "helm" {
		d.Fault("spec.helm", "write renderer: helm, or remove the helm settings", "helm settings for the renderer %s", yamlstrict.Quote(s.Renderer))
	}
	if s.Helm.Release != "" {
		d.checkName("spec.helm.release", s.Helm.Release)
	}
	for i, p := range s.Helm.ValuesFiles {
		d.checkPath(index("spec.helm.valuesFiles", i), p)
	}
	if s.Helm.Lookup && s.ServiceAccount == "" {
		d.Fault("spec.helm.lookup", "add spec.serviceAccount: what templates may look up is what that account may read", "lookup without a service account")
	}
}

func (d *document) checkRequirement(path string, r Requirement) {
	switch r.Operator {
	case selector.In, selector.NotIn:
		if len(r.Values) == 0 {
			d.Fault(path, "add values: [...]", "operator %s without values", r.Operator)
		}
	case selector.Exists, selector.DoesNotExist:
		if len(r.Values) > 0 {
			d.Fault(path+".values", "remove them", "operator %s takes no values", r.Operator)
		}
	}
}

// checkName wants a DNS label. An empty name is missing, and reported as such.
// isLabel says whether a text is a DNS label (RFC 1123) of any length. Fleets have hundreds of thousands of names: no pattern is as quick.
func isLabel(text string) bool {
	lower := func(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
	return framed(text, lower, func(c byte) bool { return lower(c) || c == '-' })
}

// framed says whether a text is made of what inner takes, and begins and ends with what ends takes.
func framed(text string, ends, inner func(byte) bool) bool {
	if text == "" || !ends(text[0]) || !ends(text[len(text)-1]) {
		return false
	}
	for i := range len(text) {
		if !inner(text[i]) {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func (d *document) checkName(path, name string) {
	const longest = 63
	if name == "" || (len(name) <= longest && isLabel(name)) {
		return
	}
	fix := "use lower-case letters, digits and dashes, at most 63, with a letter or digit at both ends"
	d.Fault(path, fix, "bad name %s in %s", yamlstrict.Quote(name), path)
}

func (d *document) checkBudget(path, s string) {
	if s == "" {
		return
	}
	if _, err := budget.Parse(s); err != nil {
		d.Fault(path, `write a share such as "50%" or a count such as "10"`, "bad budget %s", yamlstrict.Quote(s))
	}
}

// checkPath wants a path that stays inside the repository.
func (d *document) checkPath(field, p string) {
	clean := path.Clean(p)
	first, _, _ := strings.Cut(clean, "/")
	switch {
	case p == "": // missing, and reported as such
	case path.IsAbs(p) || !fs.ValidPath(clean):
		d.Fault(field, "write it relative to the repository's root", "path %s leaves the repository", yamlstrict.Quote(p))
	case first == ".git" || strings.ContainsAny(p, "\\\x00"):
		d.Fault(field, "name a folder of the repository, with / between its parts", "bad path %s", yamlstrict.Quote(p))
	}
}

// checkRef wants a ref of git.
func (d *document) checkRef(path, ref string) {
	if ref != "" && !isGitRef(ref) {
		d.Fault(path, gitRefFix, "bad ref %s", yamlstrict.Quote(ref))
	}
}

const gitRefFix = "name a branch, a tag or a commit"

// isGitRef says whether ref can name a branch, tag or commit, and is nothing that a git program could take for an option
// or an expression.
func isGitRef(ref string) bool {
	bad := strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "/") || strings.HasSuffix(ref, "/") ||
		strings.HasSuffix(ref, ".") || strings.Contains(ref, "..") || strings.Contains(ref, "@{") ||
		strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) })
	return !bad
}

// checkGitURL wants a URL that git can fetch from, or git's short form of ssh.
func (d *document) checkGitURL(path, raw string) {
	if !shortSSH().MatchString(raw) {
		d.checkURL(path, raw, "https", "http", "ssh", "file")
	}
}

// checkURL wants an absolute URL of one of the schemes. The value is never repeated in a message: it may hold a
// credential.
func (d *document) checkURL(path, raw string, schemes ...string) {
	if raw == "" {
		return
	}
	fix := "write " + strings.Join(schemes, "://..., ") + "://..."
	u, err := url.Parse(raw)
	switch {
	case err != nil || !u.IsAbs():
		d.Fault(path, fix, "%s is not a URL", path)
	case !slices.Contains(schemes, u.Scheme):
		d.Fault(path, fix, "%s has the unknown scheme %s", path, yamlstrict.Quote(u.Scheme))
	case u.Scheme == "file" && (u.Host != "" || !strings.HasPrefix(u.Path, "/")):
		d.Fault(path, "write file:///absolute/path", "%s is not the URL of a local folder", path)
	case u.Scheme != "file" && u.Host == "":
		d.Fault(path, fix, "%s names no host", path)
	case hasCredential(u):
		d.Fault(path, "remove it: whoever reads the repository can read it", "%s holds a credential", path)
	}
}

// hasCredential is true for any password, and for a user of an HTTP URL, where tokens are written.
func hasCredential(u *url.URL) bool {
	if u.User == nil {
		return false
	}
	_, password := u.User.Password()
	return password || u.Scheme != "ssh"
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
