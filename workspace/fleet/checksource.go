package fleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/versions"
)

// Bounds of Source.spec.interval.
const (
	minInterval = time.Second
	maxInterval = 24 * time.Hour
)

var (
	// chartName is what Helm lets a chart be called.
	chartName = lazily(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// ociPath, ociTag and ociDigest are those of the distribution specification.
	ociPath   = lazily(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	ociTag    = lazily(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	ociDigest = lazily(`^sha256:[0-9a-f]{64}$`)
	// commitID is how git writes one in full.
	commitID = lazily(`^[0-9a-f]{40}$`)
)

func (d *document) checkSource(s *Source) {
	d.checkName("metadata.name", s.Metadata.Name)
	d.checkUpstream(&s.Spec)
	if s.Spec.Auth != nil {
		d.checkAuth(&s.Spec)
	}
	if s.Spec.Verify != nil {
		d.checkVerification(s.Kind(), s.Spec.Verify)
	}
	if s.Spec.Interval == "" {
		return
	}
	every, err := time.ParseDuration(s.Spec.Interval)
	if err != nil || every < minInterval || every > maxInterval {
		d.Fault("spec.interval", `write a time between 1s and 24h, such as "2m"`, "bad interval %s", yamlstrict.Quote(s.Spec.Interval))
	}
}

// checkUpstream wants exactly one kind.
func (d *document) checkUpstream(s *SourceSpec) {
	var kinds []string
	if s.Git != nil {
		kinds = append(kinds, "git")
		d.checkGit(s.Git)
	}
	if s.Helm != nil {
		kinds = append(kinds, "helm")
		d.checkWebURL("spec.helm.url", s.Helm.URL, "write the URL under which index.yaml lies")
		d.checkDefaultChart(s.Helm)
	}
	if s.OCI != nil {
		kinds = append(kinds, "oci")
		d.checkOCIURL("spec.oci.url", s.OCI.URL)
		d.checkOCIRef("spec.oci.ref", s.OCI.Ref)
	}
	if s.HTTP != nil {
		kinds = append(kinds, "http")
		d.checkWebURL("spec.http.url", s.HTTP.URL, "")
		if s.HTTP.Digest != "" && !ociDigest().MatchString(s.HTTP.Digest) {
			d.Fault("spec.http.digest", "write sha256: and what sha256sum prints of the file", "bad digest %s", yamlstrict.Quote(s.HTTP.Digest))
		}
	}
	switch {
	case len(kinds) == 0:
		d.Fault("spec", "add git: {url: ...}, helm: {url: ...}, oci: {url: ...} or http: {url: ..., digest: ...}", "source without an upstream")
	case len(kinds) > 1:
		d.Fault("spec."+kinds[1], "make two sources of it", "source with more than one upstream: %s", strings.Join(kinds, ", "))
	}
}

func (d *document) checkGit(g *GitSource) {
	d.checkGitURL("spec.git.url", g.URL)
	d.checkRef("spec.git.ref", g.Ref)
	if g.Submodules != "" && g.Submodules != "follow" {
		d.Fault("spec.git.submodules", "write follow, or remove the field: a service that touches a submodule is held then",
			"bad submodules %s", yamlstrict.Quote(g.Submodules))
	}
}

// checkWebURL wants an https URL: without TLS a server may only be on this machine. The fix is for a URL with a query, which
// cannot be the base of others; empty: a query is a part of it.
func (d *document) checkWebURL(path, raw, baseFix string) {
	before := d.Faults.Len()
	d.checkURL(path, raw, "https", "http")
	u, err := url.Parse(raw)
	if raw == "" || err != nil || d.Faults.Len() > before {
		return
	}
	switch {
	case baseFix != "" && (u.RawQuery != "" || u.Fragment != ""):
		d.Fault(path, baseFix, "%s has a query or a fragment", path)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		d.Fault(path, "write https://...", "%s is not encrypted, which is for a server on this machine alone", path)
	}
}

// checkDefaultChart looks at the chart of those who name none.
func (d *document) checkDefaultChart(h *HelmSource) {
	switch {
	case h.Chart != "" && !chartName().MatchString(h.Chart):
		d.Fault("spec.helm.chart", "write its name alone; its version is the ref", "bad chart %s", yamlstrict.Quote(h.Chart))
	case h.Ref != "" && h.Chart == "":
		d.Fault("spec.helm.ref", "name the chart as spec.helm.chart, or give the ref to each service", "a version of no chart")
	case h.Ref != "" && !isRange(h.Ref):
		d.Fault("spec.helm.ref", `write a version, or a range of versions such as "^1.2"`, "bad ref %s of a chart", yamlstrict.Quote(h.Ref))
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkOCIURL wants a repository: what is wanted of it is said by the ref.
func (d *document) checkOCIURL(path, raw string) {
	const fix = "write oci://host/path, and tag or digest as ref"
	before := d.Faults.Len()
	d.checkURL(path, raw, "oci")
	u, err := url.Parse(raw)
	if raw == "" || err != nil || d.Faults.Len() > before {
		return
	}
	if name := strings.TrimPrefix(u.Path, "/"); !ociPath().MatchString(name) || u.RawQuery != "" || u.Fragment != "" {
		d.Fault(path, fix, "%s names no repository: %s is none", path, yamlstrict.Quote(name))
	}
}

// checkOCIRef takes a tag, a range over tags or a digest.
func (d *document) checkOCIRef(path, ref string) {
	if !isOCIRef(ref) {
		d.Fault(path, ociRefFix, "bad ref %s", yamlstrict.Quote(ref))
	}
}

const ociRefFix = `write a tag, a range of versions such as "^1.2", or a digest sha256:...`

func isOCIRef(ref string) bool {
	return ref == "" || ociTag().MatchString(ref) || ociDigest().MatchString(ref) || isRange(ref)
}

// isRange says whether ref is a version or a range of versions.
func isRange(ref string) bool {
	_, err := versions.ParseRange(ref)
	return err == nil
}

// checkAuth looks at what is written; whether the secret is sealed for the hub is for others.
func (d *document) checkAuth(s *SourceSpec) {
	auth := s.Auth
	if auth.Secret == "" && auth.KnownHosts == "" {
		d.Fault("spec.auth", "name a sealed file as secret, or remove auth", "auth without a secret")
	}
	d.checkFilePath("spec.auth.secret", auth.Secret)
	if auth.KnownHosts == "" {
		return
	}
	if s.Git == nil || !isSSH(s.Git.URL) {
		d.Fault("spec.auth.knownHosts", "remove it: TLS tells which server it is", "knownHosts for a source that is not reached by ssh")
	}
	if !knownHosts(auth.KnownHosts) {
		d.Fault("spec.auth.knownHosts", "write what ssh-keyscan HOST prints, once you have compared the fingerprint", "bad lines of known_hosts")
	}
}

// knownHosts says whether text holds host keys and nothing else.
func knownHosts(text string) bool {
	rest, keys := []byte(text), 0
	for {
		var err error
		if _, _, _, _, rest, err = ssh.ParseKnownHosts(rest); err != nil {
			return errors.Is(err, io.EOF) && keys > 0
		}
		keys++
	}
}

func isSSH(raw string) bool { return strings.HasPrefix(raw, "ssh://") || shortSSH().MatchString(raw) }

// checkVerification wants one way to verify, and one that the upstream knows.
func (d *document) checkVerification(kind string, v *Verification) {
	switch {
	case v.Keyless == nil && len(v.Keys) == 0:
		d.Fault("spec.verify", "name files with public keys as keys", "verify without keys")
	case v.Keyless != nil && len(v.Keys) > 0:
		d.Fault("spec.verify.keyless", "keep one of them", "verify by both keys and keyless")
	case kind == "http":
		d.Fault("spec.verify", "remove it", "verify for a file whose digest is given already")
	case v.Keyless != nil && kind != "" && kind != "oci":
		d.Fault("spec.verify.keyless", "name files with public keys as keys", "keyless signatures are for oci sources, and this one is %s", kind)
	}
	d.checkDescent(kind, v)
	for i, key := range v.Keys {
		d.checkFilePath(index("spec.verify.keys", i), key)
	}
	if v.Keyless != nil {
		d.checkURL("spec.verify.keyless.issuer", v.Keyless.Issuer, "https")
		d.checkFilePath("spec.verify.keyless.trustRoot", v.Keyless.TrustRoot)
	}
}

// checkDescent looks at what a branch's commits are bound by besides their signatures.
func (d *document) checkDescent(kind string, v *Verification) {
	if kind != "" && kind != "git" {
		for field, value := range map[string]string{"spec.verify.descendsFrom": v.DescendsFrom, "spec.verify.rewinds": v.Rewinds} {
			if value != "" {
				d.Fault(field, "remove it", "%s is for branches of git sources, and this one is %s", field, kind)
			}
		}
		return
	}
	if v.DescendsFrom != "" && !commitID().MatchString(v.DescendsFrom) {
		d.Fault("spec.verify.descendsFrom", "write the 40 hex digits that git rev-parse prints",
			"bad commit %s", yamlstrict.Quote(v.DescendsFrom))
	}
	if v.Rewinds != "" && v.Rewinds != "follow" {
		d.Fault("spec.verify.rewinds",
			"write follow, or remove the field: a branch that leaves what was verified of it stays where it was then",
			"bad rewinds %s", yamlstrict.Quote(v.Rewinds))
	}
}

// checkFilePath wants the one spelling of a file's path.
func (d *document) checkFilePath(field, name string) {
	d.checkPath(field, name)
	if clean := path.Clean(name); name != "" && clean != name && fs.ValidPath(clean) {
		d.Fault(field, "write "+yamlstrict.Quote(clean), "path %s is written in a roundabout way", yamlstrict.Quote(name))
	}
}

// checkFiles reports files that the workspace, sources, sinks and providers name and the repository does not have. The error is one of
// reading.
func checkFiles(fsys fs.FS, f *Fleet, out *yamlstrict.Faults) error {
	if name := f.Workspace.Spec.Hub.SigningKeys; name != "." && fs.ValidPath(name) {
		if err := checkNamed(fsys, &f.Workspace, map[string]string{"spec.hub.signingKeys": name}, out); err != nil {
			return err
		}
	}
	for i := range f.Sources {
		if err := checkNamed(fsys, &f.Sources[i], f.Sources[i].files(), out); err != nil {
			return err
		}
	}
	for i := range f.Sinks {
		if err := checkNamed(fsys, &f.Sinks[i], f.Sinks[i].files(), out); err != nil {
			return err
		}
	}
	for i := range f.Providers {
		if err := checkNamed(fsys, &f.Providers[i], f.Providers[i].files(), out); err != nil {
			return err
		}
	}
	return nil
}

func checkNamed(fsys fs.FS, d placed, files map[string]string, out *yamlstrict.Faults) error {
	for field, name := range files {
		info, err := fs.Stat(fsys, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out.Add(d.Place(field), "correct the path, or add the file", "file %s does not exist", yamlstrict.Quote(name))
		case err != nil:
			return fmt.Errorf("stat %s: %w", yamlstrict.Quote(name), err)
		case !info.Mode().IsRegular():
			out.Add(d.Place(field), "name the file itself", "%s is not a regular file", yamlstrict.Quote(name))
		}
	}
	return nil
}

// files are the files that a source names, by field. Paths that are none were reported.
func (s *Source) files() map[string]string {
	named := map[string]string{}
	add := func(field, name string) {
		if name != "." && fs.ValidPath(name) {
			named[field] = name
		}
	}
	if s.Spec.Auth != nil {
		add("spec.auth.secret", s.Spec.Auth.Secret)
	}
	if s.Spec.Verify == nil {
		return named
	}
	for i, key := range s.Spec.Verify.Keys {
		add(index("spec.verify.keys", i), key)
	}
	if s.Spec.Verify.Keyless != nil {
		add("spec.verify.keyless.trustRoot", s.Spec.Verify.Keyless.TrustRoot)
	}
	return named
}
