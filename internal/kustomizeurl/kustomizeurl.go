// Package kustomizeurl owns remote addresses in kustomizations.
//
// It refuses to know who fetches them and from where. A [Remote] says what an address means, and in which folder a render sees
// its files, so that whoever puts them there and the renderer that looks for them agree without a word between them.
package kustomizeurl

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Folder holds the files of all remotes, relative to the root of the repository that refers to them.
const Folder = ".remotes"

// Kind is what an address leads to.
type Kind string

// The kinds are called as the kinds of a fleet's sources.
const (
	Git  Kind = "git"
	HTTP Kind = "http"
	Helm Kind = "helm"
	OCI  Kind = "oci"
)

// Remote is what an address means.
type Remote struct {
	Kind Kind
	// URL is where to fetch from: without a path in the repository, a ref or a credential.
	URL string
	// Ref is the branch, tag or commit of git, and the version of a chart; empty when the address names none.
	Ref string
	// Chart is the name of a chart of a Helm repository.
	Chart string
	// Path is the folder in a git repository, "." for its root, and the name of the file behind http.
	Path string
}

// Is tells whether kustomize takes a text for an address: a scheme, an scp-style user@host:path, or GitHub without either.
// The files of a generator may carry a key in front.
func Is(text string) bool { return address.MatchString(text) }

var address = regexp.MustCompile(`(?i)^(?:[^/=?]+=)?(?:git::)?(?:[a-z][a-z0-9+.-]*://|[^/@\s]+@[^/:\s]+:|(?:www\.)?github\.com[/:]|gh:|file:)`)

// WithoutKey is the address of a generator's file, which may be written as KEY=ADDRESS.
func WithoutKey(text string) string {
	if key, rest, ok := strings.Cut(text, "="); ok && Is(rest) && !strings.ContainsAny(key, "/?:") {
		return rest
	}
	return text
}

// Parse says what an address may mean, the likelier meaning first: kustomize asks an https address for a file, and clones what
// gives it none. Its errors show no credential.
func Parse(text string) ([]Remote, error) {
	whole, query, _ := strings.Cut(text, "?")
	whole = trimPrefixFold(whole, "git::")
	scheme, rest, schemed := strings.Cut(whole, "://")
	if !schemed {
		scheme, rest = "", whole
	}
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "", "ssh", "https", "http":
	case "file":
		return nil, errors.New("a file URL is of the machine that renders: refer to the file by its path in the repository")
	default:
		return nil, fmt.Errorf("%s:// is no scheme of a remote base: use https:// or ssh://", scheme)
	}
	authority, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		if scheme == "https" || scheme == "http" || strings.Contains(authority[:at], ":") {
			return nil, errors.New("the address holds a credential: take it out, and give it to the source as auth")
		}
	}
	git, err := parseGit(scheme, rest, query)
	if scheme != "https" && scheme != "http" {
		if err != nil {
			return nil, err
		}
		return []Remote{git}, nil
	}
	file, known := parseFile(text)
	switch {
	case err != nil && (!known || !errors.Is(err, errNoRepository)):
		return nil, err
	case err != nil:
		return []Remote{file}, nil
	case !known:
		return []Remote{git}, nil
	case manifest.MatchString(file.Path):
		return []Remote{file, git}, nil
	}
	return []Remote{git, file}, nil
}

// errNoRepository says that an address is too short to name one, so it may be a file's alone.
var errNoRepository = errors.New("it names no repository: write https://HOST/OWNER/REPOSITORY")

// manifest is the name of a file rather than of a folder.
var manifest = regexp.MustCompile(`(?i)\.(ya?ml|json)$`)

// parseFile reads the address of a single file.
func parseFile(text string) (Remote, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return Remote{}, false
	}
	name := path.Base(path.Clean("/" + u.Path))
	if name == "/" || !fs.ValidPath(name) {
		return Remote{}, false
	}
	u.Fragment = ""
	return Remote{Kind: HTTP, URL: u.String(), Path: name}, true
}

// FileName is the name under which the file behind an http address is seen.
func FileName(address string) string {
	if file, ok := parseFile(address); ok {
		return file.Path
	}
	return "file"
}

// parseGit takes an address without its scheme and its query apart: host, repository, folder.
func parseGit(scheme, rest, query string) (Remote, error) {
	user, rest := cutUser(rest)
	github := scheme == "" && strings.EqualFold(rest[:min(len(rest), len("github.com"))], "github.com")
	if scheme == "" && user == "" && !github {
		return Remote{}, errors.New("it names no scheme: write https://HOST/REPOSITORY")
	}
	separator := strings.IndexByte(rest, '/')
	scp := false
	if colon := strings.IndexByte(rest, ':'); scheme == "" && colon > 0 && (separator < 0 || colon < separator) {
		separator, scp = colon, true
	}
	if separator <= 0 || strings.HasPrefix(rest, "-") {
		return Remote{}, errors.New("it names no host: write https://HOST/REPOSITORY")
	}
	host, rest := strings.ToLower(rest[:separator]), strings.Trim(rest[separator+1:], "/")
	repository, folder, err := splitRepository(rest)
	if err != nil {
		return Remote{}, err
	}
	ref, err := refOf(query)
	if err != nil {
		return Remote{}, err
	}
	found := Remote{Kind: Git, Ref: ref, Path: folder}
	switch {
	case scp && user != "":
		found.URL = user + "@" + host + ":" + repository
	case scheme == "ssh" || scheme == "" && user != "":
		found.URL = "ssh://" + host + "/" + repository
		if user != "" {
			found.URL = "ssh://" + user + "@" + host + "/" + repository
		}
	case scheme == "http":
		found.URL = "http://" + host + "/" + repository
	default:
		found.URL = "https://" + host + "/" + repository
	}
	return found, nil
}

var userName = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9_.-]*)@`)

func cutUser(text string) (user, rest string) {
	if found := userName.FindStringSubmatch(text); found != nil {
		return found[1], text[len(found[0]):]
	}
	return "", text
}

// splitRepository tells a repository's path from the folder in it: by a mark (_git/NAME, a double slash, .git), else the
// repository is the first two names, as on GitHub.
func splitRepository(text string) (repository, folder string, err error) {
	switch before, after, ok := strings.Cut(text, "_git/"); {
	case ok:
		var name string
		name, folder, _ = strings.Cut(after, "/")
		repository = before + "_git/" + name
	case strings.Contains(text, "//"):
		repository, folder, _ = strings.Cut(text, "//")
	case strings.Contains(text, ".git"):
		at := strings.Index(text, ".git") + len(".git")
		repository, folder = text[:at], text[at:]
	default:
		names := strings.SplitN(text, "/", 3)
		if len(names) < 2 {
			return "", "", errNoRepository
		}
		repository = names[0] + "/" + names[1]
		if len(names) == 3 {
			folder = names[2]
		}
	}
	folder = path.Clean(strings.TrimPrefix(folder, "/"))
	if !fs.ValidPath(folder) {
		return "", "", errors.New("its path leaves the repository")
	}
	if repository == "" || strings.ContainsFunc(repository, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", "", errNoRepository
	}
	return repository, folder, nil
}

// refOf reads ?ref=, or ?version= as kustomize does. What else a query says is about how kustomize would fetch.
func refOf(query string) (string, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("what stands after its ? cannot be read: write ?ref=TAG")
	}
	ref := values.Get("ref")
	if ref == "" {
		ref = values.Get("version")
	}
	if strings.HasPrefix(ref, "-") || strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", errors.New("its ref is none that git takes: write ?ref=TAG")
	}
	return ref, nil
}

// Chart is a chart that a kustomization has inflated.
func Chart(repository, name, version string) (Remote, error) {
	u, err := url.Parse(repository)
	switch {
	case err != nil || u.Host == "":
		return Remote{}, errors.New("repo is no URL: write https://HOST/PATH or oci://HOST/PATH")
	case u.User != nil:
		return Remote{}, errors.New("repo holds a credential: take it out, and give it to the source as auth")
	case strings.EqualFold(u.Scheme, "oci"):
		return Remote{Kind: OCI, URL: strings.TrimRight(repository, "/") + "/" + name, Ref: version, Path: "."}, nil
	case strings.EqualFold(u.Scheme, "https") || strings.EqualFold(u.Scheme, "http"):
		return Remote{Kind: Helm, URL: repository, Chart: name, Ref: version, Path: "."}, nil
	}
	return Remote{}, fmt.Errorf("%s:// is no scheme of a chart's repo: use https:// or oci://", u.Scheme)
}

// Same tells whether both are fetched alike: the same state of the same repository, however its address is written.
func (r Remote) Same(other Remote) bool { return r.identity() == other.identity() }

// identity is equal for two remotes whose files are the same.
func (r Remote) identity() string {
	return strings.Join([]string{string(r.Kind), normal(r), r.Chart, r.Ref}, "\x00")
}

// normal is an address without what may be written in more than one way. A git repository is the same by whatever protocol.
func normal(r Remote) string {
	raw := r.URL
	if r.Kind == Git && !strings.Contains(raw, "://") { // user@host:path
		raw = "ssh://" + strings.Replace(raw, ":", "/", 1)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	host := strings.ToLower(u.Hostname())
	port := u.Port()
	if standard := map[string]string{"https": "443", "http": "80", "ssh": "22", "oci": "443"}; port == standard[strings.ToLower(u.Scheme)] {
		port = ""
	}
	if port != "" {
		host = net.JoinHostPort(host, port)
	}
	switch r.Kind {
	case Git:
		return host + "/" + strings.TrimSuffix(strings.Trim(path.Clean("/"+u.Path), "/"), ".git")
	case HTTP:
		u.Scheme, u.Host, u.Fragment = strings.ToLower(u.Scheme), host, ""
		return u.String()
	}
	return strings.ToLower(u.Scheme) + "://" + host + "/" + strings.Trim(u.Path, "/")
}

// Root is the folder in which a render sees the remote's repository, chart or file.
func (r Remote) Root() string {
	sum := sha256.Sum256([]byte(r.identity()))
	readable, _, _ := strings.Cut(normal(r), "?") // a query may hold a token
	name := unfit.ReplaceAllString(strings.Trim(strings.TrimPrefix(readable, "https://"), "/"), "-")
	if r.Chart != "" {
		name += "-" + unfit.ReplaceAllString(r.Chart, "-")
	}
	if r.Ref != "" {
		name += "-" + unfit.ReplaceAllString(r.Ref, "-")
	}
	name = dots.ReplaceAllString(strings.Trim(name, "-."), ".")
	return path.Join(Folder, name[max(0, len(name)-longest):]+"-"+hex.EncodeToString(sum[:6]))
}

// longest bounds the readable part of a folder's name.
const longest = 80

var (
	unfit = regexp.MustCompile(`[^A-Za-z0-9._]+`)
	dots  = regexp.MustCompile(`\.\.+`)
)

// Local is the path at which a render sees what the address names.
func (r Remote) Local() string { return path.Join(r.Root(), r.Path) }

func trimPrefixFold(text, prefix string) string {
	if len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix) {
		return text[len(prefix):]
	}
	return text
}

// ChartHome is the folder, relative to a kustomization's, in which kustomize looks for the chart NAME before it asks for it.
func ChartHome(home, name, repository, version string) string {
	if home == "" {
		home = "charts"
	}
	if repository != "" && version != "" {
		return path.Join(home, name+"-"+version)
	}
	return home
}

// withoutQuery is the URL as it may be repeated: a query may hold a token.
func (r Remote) withoutQuery() string {
	if before, _, ok := strings.Cut(r.URL, "?"); ok {
		return before + "?..."
	}
	return r.URL
}

// Shown is the remote as a person reads it.
func (r Remote) Shown() string {
	text := r.withoutQuery()
	if r.Chart != "" {
		text = "chart " + r.Chart + " of " + text
	}
	if r.Ref != "" {
		text += " at " + r.Ref
	}
	return text
}

// Command is what writes the source that is missing.
func (r Remote) Command() string {
	command := "plural source add NAME --" + string(r.Kind) + " " + quote(r.withoutQuery())
	if r.Chart != "" {
		command += " --chart " + quote(r.Chart)
	}
	switch {
	case r.Ref != "":
		command += " --ref " + quote(r.Ref)
	case r.Kind == OCI:
		command += " --ref '*'"
	}
	return command
}

// quote makes one word of a text for a shell.
func quote(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
