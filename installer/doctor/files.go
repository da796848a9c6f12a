package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pluralsh/plural/installer/terraform"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/packages"
)

// files are the checks of what the repo's files say.
func (x *exam) files() []Check {
	return []Check{
		{Group: "repo", Name: "files", Before: true, Run: x.valid},
		{Group: "repo", Name: "packages", Run: x.payloads},
		{Group: "repo", Name: "terraform", Before: true, Run: x.terraform},
		{Group: "repo", Name: "catalogs", Run: x.catalogs},
	}
}

// state is what the work tree says.
type state struct {
	fleet *fleet.Fleet
	files fs.FS
	// unsealed counts what must be sealed and is not, first is the first of it, with its fix.
	unsealed   int
	first, fix string
}

func (x *exam) loadFleet(ctx context.Context) (*state, error) {
	if x.Repo == nil {
		return nil, x.absent()
	}
	taken, err := offline.Read(x.Repo, "")
	if err != nil {
		return nil, err
	}
	loaded, err := taken.Fleet()
	if err != nil {
		return nil, err
	}
	s := &state{fleet: loaded.Fleet, files: taken.Taken().FS()}
	problems, err := taken.Unsealed(ctx)
	if err != nil {
		return nil, err
	}
	if s.unsealed = len(problems); s.unsealed > 0 {
		s.first, s.fix = problems[0].File+": "+problems[0].Message, problems[0].Fix
	}
	return s, nil
}

func (x *exam) valid(ctx context.Context) Result {
	s, err := x.fleet(ctx)
	var mistakes fleet.Errors
	switch {
	case x.Repo == nil:
		return skipped("%v", err)
	case errors.As(err, &mistakes) && len(mistakes) > 0:
		r := fail("plural validate lists them all", "the files have %s", plural(len(mistakes), "error", "errors"))
		r.Cause = mistakes[0].Error()
		return r
	case err != nil:
		return because(err, "the files cannot be read", "plural validate")
	case s.unsealed > 0:
		r := fail(s.fix, "%s not sealed as it should be", plural(s.unsealed, "file is", "files are"))
		r.Cause = s.first
		return r
	}
	return ok("%s, %s, %s", plural(len(s.fleet.Clusters), "cluster", "clusters"),
		plural(len(s.fleet.Services), "service", "services"), plural(len(s.fleet.Installations), "package", "packages"))
}

// payloads compares what the repo holds of packages with what plural.lock pins.
func (x *exam) payloads(ctx context.Context) Result {
	s, err := x.fleet(ctx)
	if err != nil {
		return skipped("the files cannot be read")
	}
	lock, err := lockfile.Load(s.files)
	if err != nil {
		return because(err, lockfile.File+" cannot be used", "git checkout "+lockfile.File)
	}
	var wrong, edited, left []string
	for i := range s.fleet.Installations {
		name := s.fleet.Installations[i].Metadata.Name
		entry, pinned := lock.Entry(name)
		if !pinned {
			wrong = append(wrong, name+" is not in it")
			continue
		}
		same, fault := payload(s.files, entry)
		switch {
		case fault != nil:
			wrong = append(wrong, fmt.Sprintf("%s: %v", name, fault))
		case !same:
			edited = append(edited, name)
		}
	}
	for _, entry := range lock.Packages {
		if !slices.ContainsFunc(s.fleet.Installations, func(i fleet.Installation) bool { return i.Metadata.Name == entry.Name }) {
			left = append(left, entry.Name)
		}
	}
	switch {
	case len(wrong) > 0:
		r := fail("git checkout brings back what was changed; plural package add NAME brings what is missing",
			"%s and the packages do not fit together", lockfile.File)
		r.Cause = some(wrong)
		return r
	case len(left) > 0:
		return warn("plural package remove "+left[0], "%s pins packages that are not here: %s", lockfile.File, some(left))
	case len(s.fleet.Installations) == 0:
		return skipped("there are no packages")
	case len(edited) > 0:
		return ok("all are as %s pins them, with changes made here to %s", lockfile.File, some(edited))
	}
	return ok("all are as %s pins them", lockfile.File)
}

// payload says whether an installation's payload is the one that the catalog gave. One of another version is an error.
func payload(files fs.FS, entry *lockfile.Entry) (same bool, err error) {
	below, err := fs.Sub(files, compose.Payload(entry.Name))
	if err != nil {
		return false, err
	}
	p, err := packages.Load(below)
	if err != nil {
		return false, err
	}
	if p.Spec.Version != entry.Version {
		return false, fmt.Errorf("the payload is version %s, and %s is pinned", p.Spec.Version, entry.Version)
	}
	digest, err := packages.Digest(below)
	return digest == entry.Digest, err
}

// terraform looks for the programs that packages want. Packages that want the same are named together.
func (x *exam) terraform(ctx context.Context) Result {
	s, err := x.fleet(ctx)
	if err != nil {
		return skipped("the files cannot be read")
	}
	wanted := map[terraform.Want][]string{}
	for i := range s.fleet.Installations {
		name := s.fleet.Installations[i].Metadata.Name
		below, err := fs.Sub(s.files, compose.Payload(name))
		if err != nil {
			continue
		}
		p, err := packages.Load(below)
		if err != nil {
			continue // that is what the packages' check says
		}
		for _, step := range p.Spec.Steps {
			if step.Terraform == nil {
				continue
			}
			want := terraform.Want{Product: terraform.Product(step.Terraform.Product), Version: step.Terraform.Version}
			if !slices.Contains(wanted[want], name) {
				wanted[want] = append(wanted[want], name)
			}
		}
	}
	if len(wanted) == 0 {
		return skipped("no package has terraform steps")
	}
	var found []string
	for want, by := range wanted {
		tool, err := terraform.Find(ctx, want)
		if err != nil {
			return because(err, "what carries out "+some(by)+" is not here",
				"install terraform or OpenTofu in that version, or let PLURAL_TERRAFORM name the program")
		}
		if text := fmt.Sprintf("%s %s (%s)", tool.Product, tool.Version, tool.Path); !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	slices.Sort(found)
	return ok("%s", strings.Join(found, ", "))
}

// catalogs tries to reach the servers of the catalogs.
func (x *exam) catalogs(ctx context.Context) Result {
	s, err := x.fleet(ctx)
	if err != nil {
		return skipped("the files cannot be read")
	}
	var reached, away []string
	var reason error
	for _, catalog := range s.fleet.Workspace.Spec.Catalogs {
		i := slices.IndexFunc(s.fleet.Sources, func(source fleet.Source) bool { return source.Metadata.Name == catalog.Source })
		if i < 0 {
			continue // that is what the files' check says
		}
		if err := reach(ctx, address(&s.fleet.Sources[i])); err != nil {
			away, reason = append(away, catalog.Name), err
			continue
		}
		reached = append(reached, catalog.Name)
	}
	switch {
	case len(away) > 0:
		return because(reason, "catalogs cannot be reached: "+some(away),
			"see that their Sources name the right servers, and that those run")
	case len(reached) == 0:
		return skipped("there is only the builtin catalog, which needs no server")
	}
	return ok("%s", some(reached))
}

func address(s *fleet.Source) string {
	switch {
	case s.Spec.Git != nil:
		return s.Spec.Git.URL
	case s.Spec.OCI != nil:
		return s.Spec.OCI.URL
	}
	return ""
}

// reach connects to the server of an address, unless a proxy does.
func reach(ctx context.Context, text string) error {
	host, proxied := hostPort(text)
	if host == "" || proxied {
		return nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// hostPort is the server of an address, which may be one of git's host:path; empty for a folder. Proxied says that the
// environment names a proxy for it, which then looks names up.
func hostPort(text string) (host string, proxied bool) {
	if !strings.Contains(text, "://") {
		before, _, ok := strings.Cut(text, ":")
		if !ok || strings.Contains(before, "/") {
			return "", false
		}
		text = "ssh://" + before
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ssh": "22", "git": "9418"}[u.Scheme]
	}
	if port == "" {
		port = "443"
	}
	if u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "oci" {
		asked := &http.Request{URL: &url.URL{Scheme: strings.Replace(u.Scheme, "oci", "https", 1), Host: u.Host}}
		by, err := http.ProxyFromEnvironment(asked)
		proxied = err == nil && by != nil
	}
	return net.JoinHostPort(u.Hostname(), port), proxied
}
