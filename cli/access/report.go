package access

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/internal/principal"
)

// line is one grant of one user, or of a group, whose members the repo need not know.
type line struct {
	Subject string `json:"subject"`
	// Tokens counts the user's; Identities and Federations are what they log in with besides.
	Tokens      int      `json:"tokens"`
	Identities  []string `json:"identities,omitempty"`
	Federations []string `json:"federations,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	// Applications are those that they may log in to.
	Applications []string `json:"applications,omitempty"`
	*grant
	// Expires are the ends of the tokens, as NAME=TIME.
	Expires []string `json:"tokenExpiry,omitempty"`
	// Commit changed the user's document last; empty where others share its file.
	Commit string `json:"commit,omitempty"`
	// Document is where the user is written.
	Document string `json:"document,omitempty"`
	// LastUsed is when the user did something last, as far back as RecordedSince; only where it was asked for.
	LastUsed      *time.Time `json:"lastUsed,omitempty"`
	RecordedSince *time.Time `json:"recordedSince,omitempty"`
}

func newCmdReport(f *cmdutil.Factory) *cobra.Command {
	lastUsed := false
	cmd := &cobra.Command{
		Use:   "report",
		Short: "List every user with what they may do, for auditors",
		Long: "List every user with what they may do, a line for each rule that they have; those who have none have one line too. Groups\n" +
			"that a RoleBinding or an Application names have lines of their own: their members may be known to an identity provider alone.\n\n" +
			"With -o csv there is a header, and a cell that a spreadsheet would take for a formula begins with a quote. COMMIT is the last\n" +
			"one that changed the user's file; it is left out where several documents share the file.\n\n" +
			"With --last-used the hub is asked when each user did something last. It looks at the newest part of its audit log, back to the\n" +
			"time that RECORDED SINCE says: who has no time there did nothing since. That takes a Role with fleet: [audit].",
		Example: cmdutil.Example("plural access report", "plural access report -o csv > access.csv",
			"plural access report --last-used", "plural access report --jq '.items[] | select(.role == \"admin\").subject'"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return report(cmd.Context(), f, lastUsed) },
	}
	cmd.Flags().BoolVar(&lastUsed, "last-used", false, "ask the hub when each user did something last")
	return cmd
}

func report(ctx context.Context, f *cmdutil.Factory, lastUsed bool) error {
	asCSV := f.Output == "csv" && f.JQ == ""
	var printer *ui.Printer
	var err error
	if !asCSV {
		if printer, err = f.Printer(""); err != nil {
			return err
		}
	}
	p, err := load(f)
	if err != nil {
		return err
	}
	var used *usage
	if lastUsed {
		if used, err = askUsage(ctx, f); err != nil {
			return err
		}
	}
	if asCSV {
		return writeCSV(f.IO.Out, used, used.in(p.lines(changes(ctx, f, p))), !f.NoHeaders)
	}
	all := []line{}
	view := ui.View{}
	for i, name := range header(used) {
		view.Columns = append(view.Columns, ui.Column{Name: strings.ToUpper(strings.ReplaceAll(name, "_", " ")), Wide: i > 0 && !narrow(name)})
	}
	for l := range used.in(p.lines(changes(ctx, f, p))) {
		all = append(all, l)
		view.Names = append(view.Names, l.Subject)
		row := l.cells(", ", used)
		for i := range row {
			row[i] = cmdutil.OrDash(row[i])
		}
		view.Rows = append(view.Rows, row)
	}
	view.Value = all
	if len(all) == 0 {
		view.Note = "there are no users, and no groups with a role"
	}
	if err := f.Print(printer, view); err != nil {
		return err
	}
	f.Say("%s", elsewhereNote)
	return nil
}

// header names the columns; those of usage are there where it was asked for.
func header(used *usage) []string {
	names := []string{
		"subject", "tokens", "identities", "federations", "groups", "applications", "role", "binding", "through",
		"clusters", "namespaces", "verbs", "resources", "token_expiry", "commit", "document", "file", "rule",
	}
	if used != nil {
		names = append(names, "last_used", "recorded_since")
	}
	return names
}

// narrow are the columns that a table has without -o wide.
func narrow(name string) bool {
	switch name {
	case "tokens", "role", "binding", "through", "clusters", "verbs", "resources", "last_used":
		return true
	}
	return false
}

// cells are in the order of the header; lists are joined.
func (l *line) cells(by string, used *usage) []string {
	join := func(list []string) string { return strings.Join(list, by) }
	g := l.grant
	if g == nil {
		g = &grant{}
	}
	cells := []string{
		l.Subject, strconv.Itoa(l.Tokens), join(l.Identities), join(l.Federations), join(l.Groups), join(l.Applications),
		g.Role, g.Binding, g.Through, join(g.Clusters), join(g.Namespaces), join(g.Verbs),
		join(g.Resources), join(l.Expires), l.Commit, l.Document, g.File, g.Rule,
	}
	if used != nil {
		cells = append(cells, moment(l.LastUsed), moment(l.RecordedSince))
	}
	return cells
}

// lines are those of all users, then those of all groups that a binding names.
func (p *policy) lines(commits map[string]string) iter.Seq[line] {
	federations := map[string][]string{}
	for i := range p.fleet.Federations {
		m := &p.fleet.Federations[i]
		federations[m.Spec.User] = append(federations[m.Spec.User], m.Metadata.Name)
	}
	return func(yield func(line) bool) {
		for i := range p.fleet.Users {
			u := &p.fleet.Users[i]
			person, _ := p.people.User(u.Metadata.Name)
			l := line{
				Subject: "user/" + person.Name, Tokens: len(u.Spec.Tokens), Federations: federations[person.Name], Groups: person.Groups,
				Applications: p.applications(&person), Document: place(u.Position), Commit: commits[u.Position.File],
			}
			for j := range u.Spec.Tokens {
				t := &u.Spec.Tokens[j]
				l.Expires = append(l.Expires, t.Name+"="+cmp.Or(t.Expires, "never"))
			}
			for _, id := range u.Spec.Identities {
				l.Identities = append(l.Identities, id.Provider+":"+id.Subject)
			}
			if !each(l, p.rules.Held(person), yield) {
				return
			}
		}
		for _, group := range p.boundGroups() {
			who := principal.Person{Groups: []string{group}}
			if !each(line{Subject: "group/" + group, Applications: p.applications(&who)}, p.rules.Held(who), yield) {
				return
			}
		}
	}
}

// each gives a line for each rule, and one for somebody who has none.
func each(l line, held []access.Held, yield func(line) bool) bool {
	all := grantsOf(held)
	if len(all) == 0 {
		return yield(l)
	}
	for i := range all {
		if l.grant = &all[i]; !yield(l) {
			return false
		}
	}
	return true
}

// writeCSV writes line by line: a large fleet has millions.
func writeCSV(out io.Writer, used *usage, lines iter.Seq[line], named bool) error {
	buffered := bufio.NewWriter(out)
	w := csv.NewWriter(buffered)
	if named {
		if err := w.Write(header(used)); err != nil {
			return err
		}
	}
	for l := range lines {
		row := l.cells(" ", used)
		for i := range row {
			row[i] = cmdutil.CSVCell(row[i])
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return buffered.Flush()
}
