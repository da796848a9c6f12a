// Package why owns `plural why`: the answer to why a service, or one of its objects, is as it is.
//
// It refuses to know how phases come about, and how anything is rendered or applied.
//
// A service is answered for from two sides: the hub says how it is on each cluster, and what it waits for is followed down to
// the service where it begins; the installation repo says what it is made of, and which commit changed that last. An object is
// looked for in what every service renders to, with the place where it is written; a cluster, when it is asked, says who owns
// its fields. Without a hub, what the repo knows is all, and that is said.
package why

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/live"
	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

type options struct {
	f         *cmdutil.Factory
	clusters  []string
	namespace string
	live      live.Options
}

// NewCmdWhy is `plural why`.
func NewCmdWhy(f *cmdutil.Factory) *cobra.Command {
	o := options{f: f}
	cmd := &cobra.Command{
		Use:     "why SERVICE | OBJECT",
		GroupID: cmdutil.GroupStart,
		Short:   "Say why a service or an object is as it is",
		Long: `Say why a service or an object is as it is.

Of a service: what it waits for or why it fails, on each cluster, down to the
service where that begins; which commit changed last what it is made of; and
what would help. Without a hub the repository alone is asked. While another
file has a mistake, the answer is from the newest commit that can be read.

Of an object, named as kubectl does ("Deployment.apps web/nginx", deploy/nginx
with -n): which service makes it, from which file, on which clusters, and which
commit changed that file last. With --live the clusters that can be reached from
here say who owns each of its fields, and what Kubernetes warns of.`,
		Example: cmdutil.Example(
			"plural why web --cluster edge-1",
			"plural why deploy/nginx -n web",
			`plural why "Deployment.apps web/nginx" --live -o json`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 { // KIND NAME
				return nil
			}
			return cmdutil.Exactly("SERVICE | OBJECT")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.live.Check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), strings.Join(args, " "))
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.clusters, "cluster", nil, "only on this `CLUSTER`; may be repeated")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "the object's namespace")
	o.live.AddFlags(flags, "ask clusters who owns the object's fields")
	return cmd
}

// asked is what every answer is made from.
type asked struct {
	options
	repo  *workspace.Repo
	state *offline.State
	// deployments are those of the clusters that are looked at, by service.
	deployments map[string][]resolve.Deployment
	// changed are the files that are not as they were committed.
	changed []string
	// unreadable is why the files as they are cannot be read as a fleet, if so; then state is that of the commit readAt.
	unreadable error
	readAt     *offline.Commit
}

func (o options) run(ctx context.Context, subject string) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	a, err := o.open(ctx, subject)
	if err != nil {
		return err
	}
	if name := a.serviceOf(subject); name != "" {
		if o.live.On || o.namespace != "" {
			return &ui.Err{Msg: fmt.Sprintf("--live and --namespace are about objects, and %q is a service", name), Fix: "plural why " + name}
		}
		answer, err := a.service(ctx, name)
		if err != nil {
			return err
		}
		a.sayReadAt()
		return printer.Print(ui.View{
			Value: answer, Names: []string{"service/" + name},
			Screen: func(w io.Writer) error { return screen{o.f}.service(w, answer) },
		})
	}
	answer, err := a.object(ctx, subject)
	if err != nil && a.unreadable != nil {
		return a.unreadable
	}
	if err != nil {
		return a.deleted(ctx, subject, err)
	}
	a.sayReadAt()
	return printer.Print(ui.View{
		Value: answer, Names: answer.names(),
		Screen: func(w io.Writer) error { return screen{o.f}.object(w, answer) },
	})
}

// open resolves the work tree, or the newest readable commit where other files than the subject's have mistakes.
func (o options) open(ctx context.Context, subject string) (*asked, error) {
	repo, err := o.f.Repo()
	if err != nil {
		return nil, err
	}
	var readAt *offline.Commit
	state, unreadable := offline.Open(repo, "")
	if unreadable != nil {
		if state, readAt, err = o.readable(repo, subject, unreadable); err != nil {
			return nil, err
		}
	}
	for _, name := range o.clusters {
		if _, ok := state.Fleet.Cluster(name); !ok {
			if gone := o.f.Deletion(ctx, "cluster", name); gone != nil {
				return nil, gone
			}
			return nil, &ui.Err{
				Msg: fmt.Sprintf("no cluster %q in this repository", name), Fix: "ls clusters/", Doc: ui.DocNotFound,
			}
		}
	}
	a := &asked{
		options: o, repo: repo, state: state, unreadable: unreadable, readAt: readAt, deployments: map[string][]resolve.Deployment{},
	}
	resolver := resolve.New()
	for i := range state.Fleet.Clusters {
		name := state.Fleet.Clusters[i].Metadata.Name
		if len(o.clusters) > 0 && !slices.Contains(o.clusters, name) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		list, err := resolver.For(state.Fleet, name, state)
		if err != nil {
			return nil, err
		}
		for j := range list {
			a.deployments[list[j].Service] = append(a.deployments[list[j].Service], list[j])
		}
	}
	if changed, err := patch.Files(ctx, repo, "HEAD"); err == nil { // there may be no commit yet
		a.changed = changed
	}
	return a, nil
}

// deleted is err, unless what is meant is a service that a commit deleted: also of that there is a reason why it is as it is.
func (a *asked) deleted(ctx context.Context, subject string, err error) error {
	gone := a.f.Deletion(ctx, "service", strings.TrimPrefix(strings.TrimPrefix(subject, "svc/"), "service/"))
	if gone == nil || a.namespace != "" {
		return err
	}
	hub, unknown := a.f.HubClient()
	if unknown != nil {
		return gone
	}
	// A hub that refuses the deletion keeps the service; one that does not answer leaves the repository's word.
	if status, err := hub.Status(ctx); err == nil && len(status.Refused) > 0 {
		refused := status.Refused[0]
		gone.Cause, gone.Fix = "the hub refuses that, and keeps it running: "+refused.Message, cmdutil.Mend(refused, status.Commit.ID)
	}
	return gone
}

// serviceOf is the service that is meant, or empty.
func (a *asked) serviceOf(subject string) string {
	name := a.nameOf(subject)
	if _, ok := a.state.Fleet.Service(name); ok {
		return name
	}
	return ""
}

// nameOf is the subject as the name of a service.
func (o options) nameOf(subject string) string {
	for _, prefix := range []string{"svc/", "service/"} {
		if name, ok := strings.CutPrefix(subject, prefix); ok && o.namespace == "" {
			return name
		}
	}
	return subject
}

// origin is where something comes from in the installation repo.
type origin struct {
	// Files are what it is made of, relative to the repo's root.
	Files []string `json:"files"`
	// Commit changed one of them last; nil when no commit has them.
	Commit *offline.Commit `json:"commit,omitempty"`
	// Uncommitted are those of the files, or what is below them, that are not as they were committed.
	Uncommitted []string `json:"uncommitted,omitempty"`
	// ReadAt is the commit that the answer is from, where the files as they are cannot be read; else it is from them.
	ReadAt *offline.Commit `json:"readAt,omitempty"`
}

func (a *asked) origin(ctx context.Context, files []string) (origin, error) {
	slices.Sort(files)
	files = slices.Compact(files)
	commit, err := offline.LastChange(ctx, a.repo, files)
	if err != nil {
		return origin{}, err
	}
	out := origin{Files: files, Commit: commit, ReadAt: a.readAt}
	for _, name := range a.changed {
		if slices.ContainsFunc(files, func(file string) bool { return file == "." || name == file || strings.HasPrefix(name, file+"/") }) {
			out.Uncommitted = append(out.Uncommitted, name)
		}
	}
	return out, nil
}
