package committer

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// EndLogins ends all logins of a user of the fleet who asks for it, as a commit: those of now and before. Errors are as those of Change.
func (c *Committer) EndLogins(ctx context.Context, by principal.Person, now time.Time) (commit string, err error) {
	fix := "plural auth end " + by.Name + ", by somebody who may push"
	if err := c.Refusal(fix); err != nil {
		return "", err
	}
	if len(c.Keys) > 0 { // a commit that the hub's key does not cover would be refused, and with it all those behind it
		return "", &api.Refused{
			Status: http.StatusForbidden, Message: "this hub believes signed commits alone, and its own key does not cover access/", Fix: fix,
		}
	}
	after := now.UTC().Truncate(time.Second).Add(time.Second) // logins know whole seconds: those of this one end, too
	commit, err = c.edit(ctx, by, "End logins of "+by.Name, func(tip fs.FS) (*yamledit.Change, error) {
		return yamledit.Set(tip, yamledit.Document{Kind: yamledit.User, Name: by.Name}, yamledit.Field{
			Key: "spec.sessionsAfter", Value: after.Format(time.RFC3339),
		})
	})
	return commit, c.explained(err, by, "end logins of", by.Name)
}

// explained is why a change was not committed, as people are told it: what they can do nothing about is for the log.
func (c *Committer) explained(err error, by principal.Person, action, of string) error {
	unfit, unwanted := new(yamledit.Error), new(workspace.PushError)
	switch {
	case errors.As(err, &unfit):
		return &api.Refused{Status: http.StatusConflict, Message: unfit.Message, Fix: unfit.Fix}
	case err != nil && !errors.As(err, &unwanted):
		c.Log.Error("a change that somebody asked for was not committed", "person", by.Name, "of", of, "action", action, "error", err)
		return ErrNoCommit
	}
	return err
}
