package committer

import (
	"context"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// EndLogins ends all logins of a user of the fleet who asks for it, as a commit: those of now and before. Errors are as those of Change.
func (c *Committer) EndLogins(ctx context.Context, by principal.Person, now time.Time) (*v1.Edited, error) {
	after := now.UTC().Truncate(time.Second).Add(time.Second) // logins know whole seconds: those of this one end, too
	return c.Make(ctx, by, api.Edit{Action: api.ActionEndLogins, Name: by.Name}, Job{
		Plan: func(_ context.Context, tip *workspace.Tip) (*Draft, error) {
			change, err := yamledit.Set(tip.Files, yamledit.Document{Kind: yamledit.User, Name: by.Name}, yamledit.Field{
				Key: "spec.sessionsAfter", Value: after.Format(time.RFC3339),
			})
			if err != nil {
				return nil, err
			}
			return drafted(change, "End logins of "+by.Name), nil
		},
	})
}
