package cmdutil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/local"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/versions"
)

// Mend is what to do about a problem for which the hub refuses a commit, or holds something: in a line, the commands first. What came
// with an undo is not to be undone, which would bring back what was undone: all goes back to what is served, where that is known.
func Mend(p v1.Problem, served string) string {
	undo := "plural undo"
	if p.Since != nil {
		undo += " " + ShortCommit(p.Since.ID)
	}
	if p.Since != nil && served != "" && (strings.HasPrefix(p.Since.Subject, `Revert "`) || strings.HasPrefix(p.Since.Subject, `Reapply "`)) {
		undo = GoBack(served)
	}
	switch {
	case p.Token != "" && p.Cluster != "":
		return undo + ", or agree to it: plural service ack --cluster-removals " + p.Cluster
	case p.Token != "":
		return undo + ", or agree to exactly this: plural service ack --commit"
	case p.File != "":
		return "mend " + HubProblem(p).Where + ", commit and push; or " + undo
	}
	return "plural validate, mend it, commit and push; or " + undo
}

// NeverPruned is what agents leave in a cluster when a service goes; agent/apply says so.
const NeverPruned = "Namespaces, CustomResourceDefinitions, PersistentVolumes and their claims stay, unless they say plural.sh/prune: allow"

// GoBack are the commands that make all files what they are at a commit, as a new one.
func GoBack(commit string) string {
	commit = ShortCommit(commit)
	return fmt.Sprintf("git restore --source %s --staged --worktree :/ && git commit -m 'Go back to %s' && git push", commit, commit)
}

// Inherited says which commit came with what a later one is refused for; empty where that is the later one, or is not known.
func Inherited(p v1.Problem, head string) string {
	if p.Since == nil || p.Since.ID == head {
		return ""
	}
	return fmt.Sprintf("it came with %s %q", ShortCommit(p.Since.ID), ui.Clean(p.Since.Subject))
}

// Placed is the file and line with which one of the texts begins, as those of templates and bundles do; empty where none does.
func Placed(texts ...string) string {
	for _, text := range texts {
		file, rest, _ := strings.Cut(text, ":")
		line, _, told := strings.Cut(rest, ":")
		if n, err := strconv.Atoi(line); told && err == nil && n > 0 && !strings.Contains(file, " ") {
			return file + ":" + line
		}
	}
	return ""
}

// Undo is the command that takes back what broke something at a place of the installation repo, FILE:LINE, or at an unknown one:
// the newest change of all and, where an older one changed the file last, that one too. A commit that is an undo itself is not named,
// since to take it back brings back what was undone, nor one that made the file, on which more may stand by now; where that leaves
// none, it is empty.
func (f *Factory) Undo(ctx context.Context, place, newest string) string {
	undo := "plural undo " + ShortCommit(newest)
	repo, err := f.Repo()
	if err != nil {
		return undo
	}
	var ways []string
	if offline.Reverts(repo, newest) == "" {
		ways = append(ways, undo)
	}
	file, _, _ := strings.Cut(place, ":")
	if file != "" {
		c, err := offline.LastChange(ctx, repo, []string{file})
		if err == nil && c != nil && c.ID != newest && offline.Reverts(repo, c.ID) == "" && !offline.Makes(repo, c.ID, file) {
			ways = append(ways, fmt.Sprintf("plural undo %s, which changed %s last", ShortCommit(c.ID), ui.Clean(file)))
		}
	}
	return strings.Join(ways, "; or, where it was broken before that: ")
}

// AwaitsPerson says that deletions of a service on a cluster, or its removal from there, wait for somebody to agree.
func AwaitsPerson(d *v1.Deployment) bool { return d.Phase == v1.Held && (d.Held != nil || d.Leftover) }

// Ack is the command that agrees to what AwaitsPerson says.
func Ack(d *v1.Deployment) string {
	switch {
	case d.Leftover: // with those of all that leaves the cluster
		return "plural service ack --cluster-removals " + d.Cluster
	case d.Held != nil && d.Held.Unchecked: // the hub cannot tell one cluster's agreement from another's
		return "plural service ack " + d.Service + " --cluster " + d.Cluster
	}
	return "plural service ack " + d.Service
}

// Mender is MendDeployment for who may have the installation repo here, which knows where a service comes from, and whether there is
// anything before it to go back to.
func (f *Factory) Mender(ctx context.Context, hub string) func(*v1.Deployment) string {
	return func(d *v1.Deployment) string {
		return mendDeployment(d, hub, func() string {
			repo, err := f.Repo()
			if err != nil {
				return rollback(d)
			}
			state, err := offline.Open(repo, "HEAD")
			if err != nil {
				return rollback(d)
			}
			if pin := Pin(state.Fleet, d.Service); pin != "" {
				return "where its source moved, " + pin
			}
			if offline.Fresh(ctx, repo, state, d.Service) {
				return "it is new, and plural service delete " + d.Service + " takes it away"
			}
			return rollback(d)
		})
	}
}

func rollback(d *v1.Deployment) string {
	return "plural service rollback " + d.Service + " takes its last change back"
}

// Pin is what to do about a service that its source broke, the command first: empty where it comes from the installation repo, or is
// held at one commit or version already.
func Pin(f *fleet.Fleet, service string) string {
	s, known := f.Service(service)
	if !known {
		return ""
	}
	source, elsewhere := f.Source(s.Spec.Source.Name)
	if !elsewhere {
		return ""
	}
	ref := source.Ref(s)
	ref = ref[strings.LastIndexByte(ref, '@')+1:] // without the chart's name
	if plumbing.IsHash(ref) || strings.HasPrefix(ref, "sha256:") || versions.Is(ref) {
		return ""
	}
	state := "VERSION"
	if source.Kind() == "git" {
		state = "COMMIT"
	}
	return fmt.Sprintf("plural service set %s --ref %s holds it at an earlier %s of source %s", service, state, strings.ToLower(state),
		source.Metadata.Name)
}

// MendDeployment is what to do about a service that is not well on a cluster, as the hub at an address says: in a line, the
// commands first.
func MendDeployment(d *v1.Deployment, hub string) string {
	return mendDeployment(d, hub, func() string { return rollback(d) })
}

func mendDeployment(d *v1.Deployment, hub string, back func() string) string {
	warned := slices.ContainsFunc(d.Problems, func(p v1.Problem) bool { return p.Reason == v1.ReasonWarning })
	switch {
	case d.Phase == v1.Held && d.Suspended:
		return "plural service resume " + d.Service
	case AwaitsPerson(d):
		return Ack(d) + " agrees; plural undo takes the newest change back"
	case d.Unreached:
		return cmp.Or(Start(d, hub), "plural cluster get "+d.Cluster)
	case Start(d, hub) != "":
		return Start(d, hub)
	case d.Phase == v1.Failed, d.Phase == v1.Degraded, d.Phase == v1.Progressing && warned:
		return "plural why " + d.Service + " says what to mend; " + back()
	}
	return "plural why " + d.Service
}

// Start is the command that starts what a deployment lacks of its cluster, where the hub is one of this machine's fleets and somebody
// stopped it: the agent of a silent one, the API server of one whose agent gets no answer. It is empty otherwise.
func Start(d *v1.Deployment, hub string) string {
	if d.Unreached {
		return startOf(hub, local.ClusterPart+d.Cluster)
	}
	return StartAgent(&v1.Cluster{Name: d.Cluster, Phase: d.Phase}, hub)
}

// StartAgent is the command that starts the agent of a cluster that the hub does not hear from, where somebody stopped it on this
// machine; empty otherwise.
func StartAgent(c *v1.Cluster, hub string) string {
	if c.Phase != v1.Stale && c.Phase != v1.Pending {
		return ""
	}
	return startOf(hub, local.AgentPart+c.Name)
}

func startOf(hub, process string) string {
	if process = stopped(hub, "", process); process == "" {
		return ""
	}
	return "plural local start " + process
}

// Unfetched is why a source could not be fetched when that was tried last; empty where it could, or where nobody tried yet.
func Unfetched(status *v1.Status, source string) string {
	for i := range status.Sources {
		if status.Sources[i].Name == source {
			return status.Sources[i].Error
		}
	}
	return ""
}

// Deletion is what the history of the installation repo knows of a service or cluster that is not there any more: nil where it
// knows nothing, or there is no repo. Each of them lies in the file of its name unless a person put it elsewhere.
func (f *Factory) Deletion(ctx context.Context, kind, name string) *ui.Err {
	if name == "" || strings.ContainsAny(name, "/ ") {
		return nil
	}
	repo, err := f.Repo()
	if err != nil {
		return nil
	}
	c, err := offline.Deletion(ctx, repo, kind+"s/"+name+".yaml")
	if err != nil || c == nil {
		return nil
	}
	return &ui.Err{
		Msg: fmt.Sprintf("%s %q was deleted %s, by commit %s %q of %s", kind, name, Ago(f.Now(), &c.Time), ShortCommit(c.ID), c.Subject,
			c.Author),
		Fix: "plural undo " + ShortCommit(c.ID) + " brings it back", Doc: ui.DocNotFound,
	}
}

// Unknown is err, unless that is the hub's word that it has no such service or cluster, and history knows what became of it.
func (f *Factory) Unknown(ctx context.Context, kind, name string, err error) error {
	var answer *client.Error
	if !errors.As(err, &answer) || answer.Status != http.StatusNotFound {
		return err
	}
	if gone := f.Deletion(ctx, kind, name); gone != nil {
		gone.Err = err
		return gone
	}
	if near := f.near(ctx, kind, name); near != "" {
		return &ui.Err{
			Msg: answer.Message, Fix: fmt.Sprintf("did you mean %s? plural %s list has all", near, kind), Doc: ui.DocNotFound, Err: err,
		}
	}
	return err
}

// maxNames is how many names are looked through for one that was meant.
const maxNames = 500

// near is the service or cluster of which a name may be a slip; empty where the hub has none.
func (f *Factory) near(ctx context.Context, kind, name string) string {
	hub, err := f.HubClient()
	if err != nil {
		return ""
	}
	var names []string
	switch q := (paging.Query{Limit: maxNames}); kind {
	case "service":
		if page, err := hub.ServicesPage(ctx, q); err == nil {
			for i := range page.Items {
				names = append(names, page.Items[i].Name)
			}
		}
	case "cluster":
		if page, err := hub.ClustersPage(ctx, q); err == nil {
			for i := range page.Items {
				names = append(names, page.Items[i].Name)
			}
		}
	}
	near, _ := yamlstrict.Nearest(name, names)
	return near
}

// Remembered is an error with what history knows of services and clusters that are named and do not exist.
func (f *Factory) Remembered(ctx context.Context, err error) error {
	var told *ui.Err
	if !errors.As(err, &told) {
		return err
	}
	for i := range told.Problems {
		p := &told.Problems[i]
		kind, name, named := strings.Cut(p.Missing, "/")
		if !named {
			continue
		}
		if gone := f.Deletion(ctx, kind, name); gone != nil {
			p.Message += ": " + strings.TrimPrefix(gone.Msg, fmt.Sprintf("%s %q ", kind, name))
			p.Fix = "take it out there, or " + gone.Fix
		}
	}
	return err
}

// RestoreCommand is the git command that brings back what these files said at a commit. Files are those of now.
func RestoreCommand(commit string, from []string, files fs.FS) string {
	from = slices.Compact(slices.Sorted(slices.Values(from)))
	command := "git checkout " + commit + " -- "
	if slices.ContainsFunc(from, func(name string) bool { _, err := fs.Stat(files, name); return err == nil }) {
		command = "git restore -p --source=" + commit + " " // asks change by change: others in the same file may be meant
	}
	return command + strings.Join(from, " ")
}
