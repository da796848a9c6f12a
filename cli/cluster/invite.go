package cluster

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
)

// invite commits the hash of a join token, and prints the line that uses it.
func (o *registerOptions) invite(ctx context.Context) error {
	if err := workspace.CheckName(o.name); err != nil { // it becomes a file's name
		return fmt.Errorf("cluster %w", err)
	}
	c, err := open(ctx, o.factory, o.DryRun)
	if err != nil {
		return err
	}
	file, err := c.read(register.Path(o.name))
	if err != nil {
		return err
	}
	return o.inviteTo(ctx, c, file, "Invite cluster "+o.name)
}

// inviteTo does so with what stands in the cluster's file, nil for nothing.
func (o *registerOptions) inviteTo(ctx context.Context, c *intent, file []byte, message string) error {
	request, err := o.request(c)
	if err != nil {
		return err
	}
	invited, err := register.Invite(request, file, o.factory.Now())
	if err != nil {
		return err
	}
	// Nobody's envelopes change, so there is nothing to confirm.
	made, err := o.CarryOutFiles(ctx, c.repo, map[string][]byte{register.Path(o.name): invited.File}, nil, message)
	if err != nil || o.DryRun {
		return err
	}
	if made.Pushed != "" {
		o.awaitHub(ctx, made.Pushed)
	}
	if _, err := fmt.Fprintln(o.factory.IO.Out, o.line(request, invited.Token)); err != nil {
		return err
	}
	o.factory.Say("paste it where kubectl is the administrator of %s, once, before %s", o.name, invited.Expires.Local().Format("15:04:05"))
	if made.Pushed == "" {
		o.factory.Say("the hub takes it once that change is on the branch that it serves")
	}
	o.sayGroups(c, invited.Tags)
	return nil
}

// line is what whoever is the cluster's administrator pastes. The token is in no URL, which proxies write down, and in no
// program's arguments: printf is the shell's own. What kubectl applies belongs to the manager that the agent applies as, so that
// the agent's own package takes all of it over.
func (o *registerOptions) line(r register.Request, token string) string {
	address := strings.TrimRight(r.HubURL, "/") + "/join/" + url.PathEscape(o.name) + ".yaml"
	curl := "curl -fsS -H @- "
	if o.hubCA != "" {
		curl += "--cacert " + quoted(o.hubCA) + " "
	}
	return "printf 'Authorization: Bearer %s' " + quoted(token) + " | " + curl + quoted(address) +
		" | kubectl apply --server-side --force-conflicts --field-manager plural -f -"
}

// quoted is one word of a shell, whatever it holds.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// hubPatience is how long the hub may take to see the commit. It fetches by itself, so nothing is lost beyond.
const hubPatience = 30 * time.Second

// awaitHub waits until the hub knows of the token, so that the line works when it is read. A hub that cannot be asked keeps nobody
// from pasting it later.
func (o *registerOptions) awaitHub(ctx context.Context, commit string) {
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	hub, err := o.factory.HubClient()
	if err == nil {
		_ = hub.Sync(ctx, v1.OwnSource) // which only shortens the wait
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for err == nil {
		var status *v1.Status
		if status, err = hub.Status(ctx); err != nil {
			break
		}
		if status.Commit.ID == commit {
			return
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-ticker.C:
		}
	}
	o.factory.Say("the hub was not seen to fetch %s yet, and takes the line once it has: plural status", cmdutil.ShortCommit(commit))
}

// sayGroups says what lets the cluster open what its tags entitle it to: nobody can seal anything for keys that are not made yet.
func (o *registerOptions) sayGroups(c *intent, tags map[string]string) {
	if c.editor == nil {
		return
	}
	for _, group := range c.editor.Vault().Policy().GroupsOf(o.name, tags) {
		o.factory.Say("it belongs to the group %s: once it has joined, let a member run git pull && plural crypto share cluster/%s --group %[1]s",
			ui.Clean(group), o.name)
	}
}
