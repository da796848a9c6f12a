package sync

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// opened are a deployment's files with nothing sealed left in them, for as long as a render takes.
type opened struct {
	files  fs.FS
	mounts []render.Mount
	named  *unseal.Named
	// sealed says whether anything was.
	sealed bool
	// secrets are the values that no message may repeat.
	secrets []string
}

// open fetches what a deployment is made of, and opens what is sealed in it.
func (s *Syncer) open(ctx context.Context, d *api.Deployment, keys unseal.Keys) (*opened, error) {
	files, err := s.files(ctx, archive{d.GetBundle(), d.GetInputs()})
	if err != nil {
		return nil, err
	}
	plain, err := unseal.Files(files, keys, d.GetOwnRepository())
	if err != nil {
		return nil, err
	}
	out := &opened{files: plain.FS, named: new(unseal.Named), sealed: plain.Sealed, secrets: plain.Values}
	if err := s.openMounts(ctx, d, keys, files, out); err != nil {
		return nil, err
	}
	if len(d.GetSecrets()) > 0 {
		files, err := s.files(ctx, archive{d.GetSecretsBundle(), d.GetSecretsInputs()})
		if err != nil {
			return nil, err
		}
		if out.named, err = unseal.Secrets(files, d.GetSecrets(), keys); err != nil {
			return nil, err
		}
		out.sealed = true
	}
	out.secrets = hidden(d, append(out.secrets, out.named.Values...))
	return out, nil
}

// hidden are the values that are worth hiding: not those that stand in the deployment for everybody to read, as a database
// that is called like its service.
func hidden(d *api.Deployment, values []string) []string {
	public := []string{d.GetService(), d.GetNamespace(), d.GetPath()}
	public = slices.AppendSeq(public, maps.Values(d.GetParameters()))
	return slices.DeleteFunc(values, func(value string) bool {
		return slices.ContainsFunc(public, func(text string) bool { return strings.Contains(text, value) })
	})
}

// live are the values that nothing said of a render may repeat: its own, and those of what may still be live, which the API
// server prints beside them. After a restart that is the last good deployment.
func (p *pass) live(ctx context.Context, d *api.Deployment, own []string) []string {
	before, good := p.cache.secrets, p.result.good
	if p.cache.key == "" && good != nil && good.GetKey() != d.GetKey() {
		opened, err := p.open(ctx, good, p.keys)
		if err != nil {
			p.Log.Warn("last good deployment cannot be opened", "service", d.GetService(), "error", err)
			return own
		}
		before = opened.secrets
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(own, before))))
}

// secrets are the values that nothing said of a deployment may repeat. What was not rendered since the agent began is opened
// for it.
func (p *pass) secrets(ctx context.Context, d *api.Deployment) []string {
	if d == nil || p.cache.key == d.GetKey() {
		return p.cache.secrets
	}
	opened, err := p.open(ctx, d, p.keys)
	if err != nil { // its words are those of others, who never saw it
		return p.cache.secrets
	}
	p.keep(rendered{key: d.GetKey(), own: opened.secrets, secrets: p.live(ctx, d, opened.secrets)})
	return p.cache.secrets
}

// keep makes a render the newest one, whose secrets no view repeats.
func (p *pass) keep(r rendered) {
	p.cache = r
	p.masked.Store(p.result.service, r.secrets)
}

// Mask is a text about an object of a service with nothing in it that was sealed for the service's newest render. An object of no
// service that is known here may be below one of any: all that was sealed is masked then. Of a service that was live before the
// agent began, and has not been opened since, nobody knows what to mask: nothing is left of the text.
func (s *Syncer) Mask(service, text string) string {
	if text == "" {
		return ""
	}
	var values []string
	opened := true
	add := func(_, sealed any) bool {
		of, ok := sealed.([]string)
		values, opened = append(values, of...), opened && ok
		return opened
	}
	if sealed, ok := s.masked.Load(service); ok {
		add(service, sealed)
	} else {
		opened = s.polled.Load() // before that nobody knows which services there are
		s.masked.Range(add)
	}
	if !opened {
		return ""
	}
	return unseal.Redact(text, values)
}

// heard takes in which services there are.
func (s *Syncer) heard(list []*api.Deployment) {
	for _, d := range list {
		s.masked.LoadOrStore(d.GetService(), unopened{})
	}
	s.polled.Store(true)
}

// unopened is in the place of a service's values until it is opened for the first time.
type unopened struct{}

// silence is what others say of a deployment with nothing in it that was sealed.
func (p *pass) silence(ctx context.Context, d *api.Deployment, text string) string {
	if text == "" {
		return ""
	}
	return unseal.Redact(text, p.secrets(ctx, d))
}

// unlock makes keys of envelopes, and tries again what failed without them.
func (s *Syncer) unlock(state *loopState, envelopes []*api.Envelope) {
	keys, err := s.Cluster.Keys(envelopes)
	if err != nil {
		s.Log.Warn("some groups' envelopes do not open", "error", clip(err.Error(), maxMessage))
	}
	state.keys, state.envelopes = keys, envelopes
	for _, svc := range state.services {
		svc.retry()
	}
}

func sameEnvelopes(a, b []*api.Envelope) bool {
	return slices.EqualFunc(a, b, func(a, b *api.Envelope) bool { return proto.Equal(a, b) })
}
