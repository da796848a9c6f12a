package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/offline"
)

// Mend is what to do about a problem for which the hub refuses a commit, or holds something: in a line, the commands first.
func Mend(p v1.Problem) string {
	switch {
	case p.Token != "" && p.Cluster != "":
		return "plural undo, or agree to it: plural service ack --cluster-removals " + p.Cluster
	case p.Token != "":
		return "plural undo, or agree to exactly this: plural service ack --commit"
	case p.File != "":
		return "mend " + HubProblem(p).Where + ", commit and push; or plural undo"
	}
	return "plural validate, mend it, commit and push; or plural undo"
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
	return err
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
