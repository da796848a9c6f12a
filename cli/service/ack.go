package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/workspace/yamledit"
)

type ackOptions struct {
	f        *cmdutil.Factory
	service  string
	clusters []string
	removals string
	commit   bool
	making   change.CommitOptions
}

func newCmdAck(f *cmdutil.Factory) *cobra.Command {
	o := &ackOptions{f: f, making: change.CommitOptions{Factory: f}}
	cmd := &cobra.Command{
		Use:   "ack [NAME]",
		Short: "Agree to deletions that wait for a person",
		Long: `Agree to deletions that wait for a person.

What would delete more than the deletion budget allows waits, and so does what
would delete everything. This shows what waits on which clusters, asks, and
writes the agreement into the installation repo: as spec.sync.acknowledged into
the service's file or, for whole services, as spec.acknowledged into plural.yaml.
It is committed and pushed, and the command waits until it is observed.

An agreement names exactly what was shown. When other objects are to go by the
time it arrives, they wait again. One to a commit is also one to each service
that it takes away, on every cluster that the service leaves. Agreements that
nothing waits for any more are taken out of the file.

Without a name it says what waits now, and by which commands it is agreed to.

Where more waits than 50 names, or names are masked or cut, the hub cannot check
what a token stands for. Name each cluster with --cluster then: the agreement
counts on these clusters only.`,
		Example: cmdutil.Example(
			"plural service ack web",
			"plural service ack web --cluster edge-1 --cluster edge-2 --yes",
			"plural service ack --cluster-removals edge-1",
			"plural service ack --commit --dry-run"),
		Args: cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.service = args[0]
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.clusters, "cluster", nil, "only what waits on this `CLUSTER`; may be repeated")
	flags.StringVar(&o.removals, "cluster-removals", "", "agree to removals of whole services from this `CLUSTER`")
	flags.BoolVar(&o.commit, "commit", false, "agree to what the newest commit takes away, for which the hub refuses it")
	o.making.Flags(flags)
	return cmd
}

// subject is what the person may agree to something about.
func (o *ackOptions) subject() (subject, error) {
	var all []subject
	if o.service != "" {
		all = append(all, ofService{o.service, o.clusters})
	}
	if o.removals != "" {
		all = append(all, ofCluster(o.removals))
	}
	if o.commit {
		all = append(all, ofCommit{})
	}
	if len(all) != 1 || len(o.clusters) > 0 && o.service == "" {
		return nil, &ui.Err{
			Msg: "nothing says what to agree to, or too much does",
			Fix: "plural service ack NAME [--cluster CLUSTER], or --cluster-removals CLUSTER, or --commit",
		}
	}
	return all[0], nil
}

func (o *ackOptions) run(ctx context.Context) error {
	if o.service == "" && o.removals == "" && !o.commit && len(o.clusters) == 0 {
		return o.offer(ctx)
	}
	about, err := o.subject()
	if err != nil {
		return err
	}
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	hub, err := o.f.HubClient()
	if err != nil {
		return err
	}
	found, err := about.ask(ctx, hub)
	if err != nil {
		return err
	}
	switch {
	case len(found.chosen) == 0 && len(found.unchecked) > 0:
		return &ui.Err{
			Msg: fmt.Sprintf("what waits on %s is agreed to cluster by cluster: not all names are shown, so the hub cannot check them",
				cmdutil.Few(found.uncheckedClusters())),
			Fix: "plural service ack " + o.service + clusterFlags(found.uncheckedClusters()),
			Doc: ui.DocHeld,
		}
	case len(found.chosen) == 0:
		o.f.Say("nothing waits for an agreement")
		return nil
	case len(found.unchecked) > 0:
		o.f.Say("this leaves out what the hub cannot check; to agree to that: plural service ack %s%s",
			o.service, clusterFlags(found.uncheckedClusters()))
	}
	planned, err := yamledit.Agree(os.DirFS(repo.Root()), about.home(), found.tokens(), func(token string) bool { return found.waiting[token] })
	if err != nil {
		return change.Explained(err)
	}
	if err := o.askNames(ctx, hub, found); err != nil {
		return err
	}
	o.show(found)
	if planned.Done() {
		o.f.Say("agreed to already, in %s", planned.File)
		return nil
	}
	if err := o.confirm(ctx, found); err != nil {
		return err
	}
	made, err := o.making.CarryOut(ctx, repo, planned, about.message())
	if err != nil || made.Pushed == "" || !o.making.Wait {
		return err
	}
	return settled{f: o.f, hub: hub, about: about, agreed: found.chosen, commit: made.Pushed}.wait(ctx)
}

// offer names what waits for a person now, with the command that agrees to each.
func (o *ackOptions) offer(ctx context.Context) error {
	hub, err := o.f.HubClient()
	if err != nil {
		return err
	}
	_, refused, err := askFleet(ctx, hub)
	if err != nil {
		return err
	}
	var all cmdutil.Selection
	q := paging.Query{Filter: "health:" + string(v1.Held), Limit: paging.MaxLimit}
	rows, err := cmdutil.Pick(ctx, &all, q, hub.DeploymentsPage)
	if err != nil {
		return err
	}
	problems := offers(rows.Items)
	if len(refused) > 0 {
		problems = append(problems, ui.Problem{Where: "the newest commit", Message: refused[0].message, Fix: "plural service ack --commit"})
	}
	if len(problems) == 0 {
		o.f.Say("nothing waits for an agreement")
		return nil
	}
	return &ui.Err{
		Msg: "nothing says what to agree to", Problems: problems, Doc: ui.DocHeld,
		Fix: "run one of these commands; each shows what it deletes, and asks",
	}
}

// offers are the deletions among services on clusters that wait for a person, once for each command that agrees to some.
func offers(rows []v1.Deployment) []ui.Problem {
	var commands []string
	of := map[string][]*v1.Deployment{}
	for i := range rows {
		if d := &rows[i]; cmdutil.AwaitsPerson(d) {
			command := cmdutil.Ack(d)
			if of[command] == nil {
				commands = append(commands, command)
			}
			of[command] = append(of[command], d)
		}
	}
	var problems []ui.Problem
	for _, command := range commands {
		first, count := of[command][0], 0
		var services, clusters []string
		for _, d := range of[command] {
			services, clusters = append(services, d.Service), append(clusters, d.Cluster)
			if d.Held != nil {
				count += d.Held.Count
			}
		}
		text := fmt.Sprintf("%d objects wait to be deleted on %s", count, cmdutil.Few(clusters))
		p := ui.Problem{Where: first.Service, Message: text, Fix: command}
		if first.Leftover {
			p.Where, p.Message = first.Cluster, "these services wait to be removed: "+cmdutil.Few(services)
		}
		problems = append(problems, p)
	}
	return problems
}

// askNames asks for the names that the answer about a service has no room for. Who agrees unseen does without.
func (o *ackOptions) askNames(ctx context.Context, hub *client.Client, found *findings) error {
	for i := range found.chosen {
		m := &found.chosen[i]
		if o.service == "" || !m.nameless() {
			continue
		}
		switch err := m.askNames(ctx, hub, o.service); {
		case err == nil:
		case o.f.Yes:
			o.f.Say("the names of what waits on %s are not known: %s", cmdutil.Few(m.clusters), ui.Clean(err.Error()))
		default:
			return err
		}
	}
	return nil
}

// show says what waits, each thing once.
func (o *ackOptions) show(found *findings) {
	for i := range found.chosen {
		m := &found.chosen[i]
		o.f.Say("%s: %s", ui.Clean(m.token), ui.Clean(m.title()))
		for _, line := range m.lines() {
			o.f.Say("  %s", line)
		}
	}
}

// confirm refuses a dry run without names as well: what it shows is what a person agrees to in the console.
func (o *ackOptions) confirm(ctx context.Context, found *findings) error {
	if o.f.Yes {
		return nil
	}
	for i := range found.chosen {
		if m := &found.chosen[i]; m.nameless() {
			return &ui.Err{
				Msg: fmt.Sprintf("agree to %s on %s: the hub shows no names of what is to be deleted", m.token, cmdutil.Few(m.clusters)),
				Fix: "run the command again when the agent has reported once more, or agree to it unseen with --yes", Doc: ui.DocHeld,
			}
		}
	}
	if o.making.DryRun {
		return nil
	}
	yes, err := o.f.Prompter().Confirm(ctx, "Agree to these deletions?", "--yes")
	if err == nil && !yes {
		err = context.Canceled
	}
	return err
}

// findings are what the hub says waits.
type findings struct {
	// chosen are what the person is asked about, most of it first.
	chosen []matter
	// waiting are the tokens of all that waits, chosen or not.
	waiting map[string]bool
	// unchecked are what is agreed to only where its cluster is named.
	unchecked []matter
}

// matter is what one token names.
type matter struct {
	token, message string
	unchecked      bool
	count          int
	// what is the noun of names: "objects", "services".
	what  string
	names []string
	// clusters are where it waits; none when it is the commit that does.
	clusters []string
	// services are those that a commit takes away, altogether or from some clusters.
	services []string
}

// tokens are what an agreement to it says: the token of all, and one for each service. By these the agents know what they are
// to let go, each of which sees only the services on its own cluster.
func (m *matter) tokens() []string {
	tokens := []string{m.token}
	for _, name := range m.services {
		tokens = append(tokens, budget.Token([]string{name}))
	}
	return tokens
}

// nameless says that nothing tells a person what it is that waits on a cluster.
func (m *matter) nameless() bool { return len(m.clusters) > 0 && len(m.names) == 0 }

// maxAsked is how many clusters are asked for the names of one matter.
const maxAsked = 20

// askNames takes the names from the first cluster where it still waits: what waits on others may have changed since, or be gone.
func (m *matter) askNames(ctx context.Context, hub *client.Client, service string) error {
	for _, cluster := range m.clusters[:min(len(m.clusters), maxAsked)] {
		d, err := hub.Deployment(ctx, cluster, service)
		var answer *client.Error
		switch {
		case errors.As(err, &answer) && answer.Status == http.StatusNotFound:
		case err != nil:
			return err
		case d.Held != nil && d.Held.Agreement(d.Cluster) == m.token:
			m.names, m.count = d.Held.Names, d.Held.Count
			return nil
		}
	}
	return nil
}

func (m *matter) title() string {
	out := fmt.Sprintf("%d %s", m.count, m.what)
	if m.count == 0 {
		out = m.message
	}
	if len(m.clusters) > 0 {
		out += " on " + cmdutil.Few(m.clusters)
	}
	if m.unchecked {
		out += ", by the word of its agent alone"
	}
	return out
}

// lines are the names, one in a line.
func (m *matter) lines() []string {
	var out []string
	for _, name := range m.names {
		out = append(out, "- "+ui.Clean(name))
	}
	if rest := m.count - len(m.names); rest > 0 && len(m.names) > 0 {
		out = append(out, fmt.Sprintf("- and %d more", rest))
	}
	return out
}

// clusterFlags choose the clusters: all of them, so that nobody has to search for the others.
func clusterFlags(names []string) string { return " --cluster " + strings.Join(names, " --cluster ") }

// uncheckedClusters are those of what is left out.
func (f *findings) uncheckedClusters() []string {
	var out []string
	for i := range f.unchecked {
		out = append(out, f.unchecked[i].clusters...)
	}
	return out
}

// tokens are those that were chosen.
func (f *findings) tokens() []string {
	var out []string
	for i := range f.chosen {
		out = append(out, f.chosen[i].tokens()...)
	}
	return out
}

// gather puts what waits on several clusters together by token.
func gather(list []matter) []matter {
	var out []matter
	for _, m := range list {
		i := slices.IndexFunc(out, func(other matter) bool { return other.token == m.token })
		if i < 0 {
			out = append(out, m)
			continue
		}
		out[i].clusters = append(out[i].clusters, m.clusters...)
		if len(out[i].names) == 0 {
			out[i].names = m.names
		}
	}
	slices.SortStableFunc(out, func(a, b matter) int {
		return cmp.Or(cmp.Compare(len(b.clusters)*b.count, len(a.clusters)*a.count), cmp.Compare(a.token, b.token))
	})
	return out
}
