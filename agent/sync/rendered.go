package sync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
)

// rendered is a deployment's objects. It lives in memory only: the objects may hold what was sealed.
type rendered struct {
	// key is the deployment's whose values are known; empty: none.
	key string
	// identity names the render that packed holds; empty: there is none.
	identity string
	packed   packed
	// own are the values that were sealed in the deployment. secrets are those that no message may repeat: these, and older
	// ones that may still be live.
	own, secrets []string
}

// packed are objects as compressed JSON: they are needed when something drifts, and lie there for weeks.
type packed []byte

// zstdPool packs and unpacks. What that takes is used again, since a thousand renders may follow each other.
type zstdPool struct{ writers, readers sync.Pool }

// packWindow is how far back repetitions are found, in bytes.
const packWindow = 256 << 10

func (p *zstdPool) pack(objects []*unstructured.Unstructured) (packed, error) {
	var out bytes.Buffer
	z, ok := p.writers.Get().(*zstd.Encoder)
	if ok {
		z.Reset(&out)
	} else {
		var err error
		z, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(packWindow))
		if err != nil {
			return nil, fmt.Errorf("pack render: %w", err)
		}
	}
	lines := json.NewEncoder(z)
	for _, object := range objects {
		if err := lines.Encode(object.Object); err != nil {
			return nil, fmt.Errorf("pack render: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack render: %w", err)
	}
	p.writers.Put(z)
	return bytes.Clone(out.Bytes()), nil
}

func (p *zstdPool) unpack(from packed) ([]*unstructured.Unstructured, error) {
	z, ok := p.readers.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)); err != nil {
			return nil, fmt.Errorf("unpack render: %w", err)
		}
	}
	defer p.readers.Put(z)
	if err := z.Reset(bytes.NewReader(from)); err != nil {
		return nil, fmt.Errorf("unpack render: %w", err)
	}
	var objects []*unstructured.Unstructured
	for lines := json.NewDecoder(z); ; {
		var raw json.RawMessage
		if err := lines.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("unpack render: %w", err)
		}
		object := new(unstructured.Unstructured)
		if err := object.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("unpack render: %w", err)
		}
		objects = append(objects, object)
	}
}

// capabilities is what a cluster can do, with a name for it.
type capabilities struct {
	Capabilities
	digest string
}

func newCapable(c Capabilities) capabilities {
	return capabilities{c, render.Fingerprint(c.KubeVersion, c.APIVersions)}
}

const identityDigits = 16

// identity names a deployment's render: the same identity, the same objects. Of a chart it is known only once it was rendered
// whether it depends on what the cluster can do; known is false before. asks is what is remembered of that, by key.
func (s *Syncer) identity(d *api.Deployment, asks map[string]bool, can capabilities) (identity string, known bool, err error) {
	switch d.GetRenderer() {
	case render.Raw, render.Kustomize:
		return d.GetKey(), true, nil
	case render.HelmChart:
		depends, known := asks[d.GetKey()]
		if !depends {
			return d.GetKey(), known, nil
		}
		return render.Identity(d.GetKey(), can.digest), true, nil
	}
	if s.Plugin == nil {
		return "", false, fmt.Errorf("this agent has no renderer %q: start it with a folder of plugins that holds it", d.GetRenderer())
	}
	program, err := s.Plugin(d.GetRenderer())
	if err != nil {
		return "", false, err
	}
	sum := sha256.Sum256([]byte(can.digest + program))
	return render.Identity(d.GetKey(), hex.EncodeToString(sum[:])[:identityDigits]), true, nil
}

// depends says whether a deployment's render may be another when the cluster can do something else.
func depends(d *api.Deployment, asks map[string]bool) bool {
	switch d.GetRenderer() {
	case render.Raw, render.Kustomize:
		return false
	case render.HelmChart:
		asked, known := asks[d.GetKey()]
		return asked || !known
	}
	return true
}

// unrenderable is why a deployment has no objects, in words that repeat nothing that was sealed. For ever says that nothing but
// a change mends it.
type unrenderable struct {
	text    string
	forEver bool
}

func (e *unrenderable) Error() string { return e.text }

// objects are a deployment's: from memory, else rendered now. The error is *unrenderable.
func (p *pass) objects(ctx context.Context, d *api.Deployment, identity string) ([]*unstructured.Unstructured, error) {
	if identity != "" && p.cache.identity == identity {
		return p.press.unpack(p.cache.packed)
	}
	opened, err := p.open(ctx, d, p.keys)
	if err != nil {
		return nil, &unrenderable{text: err.Error()}
	}
	out, err := p.rendered(ctx, d, opened)
	if err != nil {
		return nil, err
	}
	objects := opened.named.Beside(out.Objects, d.GetNamespace())
	if out.Record != nil && len(objects) > 0 { // a record alone is no render
		objects = append(objects, out.Record)
	}
	if d.GetRenderer() == render.HelmChart {
		p.learn(d.GetKey(), out.Capabilities)
	}
	if identity, _, err = p.identity(d, p.asks, p.can); err != nil {
		return nil, &unrenderable{text: err.Error()}
	}
	whole, err := p.press.pack(objects)
	if err != nil {
		return nil, &unrenderable{text: unseal.Redact(err.Error(), opened.secrets)}
	}
	p.keep(rendered{d.GetKey(), identity, whole, opened.secrets, p.live(ctx, d, opened.secrets)})
	return objects, nil
}

// learn notes whether a chart's render depends on what the cluster can do.
func (p *pass) learn(key string, depends bool) {
	if was, known := p.asks[key]; known && was == depends {
		return
	}
	p.asks = maps.Clone(p.asks)
	if p.asks == nil {
		p.asks = make(map[string]bool, 1)
	}
	p.asks[key] = depends
}

// rendered renders what was opened.
func (p *pass) rendered(ctx context.Context, d *api.Deployment, opened *opened) (*render.Output, error) {
	in, err := p.input(d, opened)
	if err != nil {
		return nil, &unrenderable{text: err.Error()}
	}
	out, err := p.Renderer.Render(ctx, in)
	if err != nil {
		var known *render.Error
		return nil, &unrenderable{unseal.Redact(err.Error(), opened.secrets), errors.As(err, &known) && known.Reason != render.Crash}
	}
	for _, warning := range out.Warnings {
		p.Log.Warn("render warns", "service", d.GetService(), "key", d.GetKey(), "warning", unseal.Redact(warning, opened.secrets))
	}
	return out, nil
}
