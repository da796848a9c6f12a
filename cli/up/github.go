package up

import (
	"context"
	"strings"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/existing"
	"github.com/pluralsh/plural/installer/githost"
)

// deployKey is what the hub's key is called on GitHub.
const deployKey = "plural-hub"

// origin has GitHub hold the installation repo, where that was asked for.
func (o *options) origin(w *existing.Options) error {
	if o.existing.github == "" {
		return nil
	}
	host, name, _ := strings.Cut(o.existing.github, "/")
	if !strings.Contains(name, "/") { // OWNER/NAME
		host, name = "github.com", o.existing.github
	}
	owner, name, ok := strings.Cut(name, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return &ui.Err{Msg: "cannot read --github " + o.existing.github, Fix: "--github OWNER/NAME, or HOST/OWNER/NAME"}
	}
	repository := githost.Repository{Host: host, Owner: owner, Name: name}
	client, err := githost.Connect(repository, githost.Options{})
	if err != nil {
		return err
	}
	w.RepoURL = repository.SSH()
	w.Origin = func(ctx context.Context) error {
		_, err := client.Create(ctx, githost.New{Description: "What runs on the fleet " + w.Name})
		return err
	}
	w.Grant = func(ctx context.Context) (map[string]string, error) {
		key, err := githost.NewKey(deployKey)
		if err != nil {
			return nil, err
		}
		hosts, err := client.KnownHosts(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := client.DeployKey(ctx, deployKey, key.Public); err != nil {
			return nil, err
		}
		return map[string]string{"identity": string(key.Private), "known_hosts": string(hosts)}, nil
	}
	w.Hook = func(ctx context.Context, secret string) error {
		if !strings.HasPrefix(w.HubURL, "https://") { // GitHub would tell the world
			return nil
		}
		_, err := client.Webhook(ctx, githost.Hook{URL: strings.TrimSuffix(w.HubURL, "/") + "/hooks/github", Secret: secret})
		return err
	}
	return nil
}
