// Package ocirepo owns charts and artifacts in OCI registries.
//
// It refuses to know what an artifact's files mean, but for the name and version of a signed chart, which have to be those of the
// repository and the tag; and who is trusted to sign one: a [verify.Image] says that. A ref is
// a tag, a range of versions over the tags, a digest ("sha256:..."), or empty for the newest version that is no
// pre-release, and "latest" where no tag is a version.
//
// A fetch asks what the ref's tag names, which is one HEAD while that stays as it was. Else the manifest and the one
// layer that holds an archive are brought, each held against its digest and size, and the files become one commit in
// the mirror: the same on every machine, since nothing but the repository's name, the digest and the files goes into it.
//
// A tag that has moved is followed, and when it is a version's the tip says so. A version that is gone is never
// followed down to an older one: going back is for people to ask for, by name.
//
// A [Repository] is the same conversation for those who keep no mirror, and for those who push.
package ocirepo

import (
	"context"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
)

// Options name one repository.
type Options struct {
	// URL is oci://HOST/PATH, without a tag.
	URL string
	// Credentials are shown to the URL's own host, and to the server that it names for log-ins.
	Credentials httpclient.Credentials
	// PlainHTTP speaks HTTP without TLS, on this machine only.
	PlainHTTP bool
	// NoLoopback refuses servers of this machine.
	NoLoopback bool
	// Verify is asked before an artifact is taken in, and once more when an Upstream is made anew; nil asks nobody.
	Verify verify.Image
}

// upstream is one repository as mirrors ask it.
type upstream struct{ *Repository }

// New makes an Upstream of a repository. It asks the server nothing yet.
func New(o Options) (mirror.Upstream, error) {
	r, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &upstream{r}, nil
}

// Traffic implements mirror.Upstream.
func (u *upstream) Traffic() mirror.Traffic {
	requests, bytes := u.counter.Totals()
	return mirror.Traffic{Requests: requests, Bytes: bytes}
}

// Fetch implements mirror.Upstream.
func (u *upstream) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}}
	f := &fetch{upstream: u, into: into, made: map[string]artifact{}}
	for _, ref := range refs {
		tip, err := f.tip(ctx, ref, into.Tip(ref))
		if ctx.Err() != nil {
			return mirror.Answer{}, context.Cause(ctx)
		}
		if err != nil {
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: u.clean(err)})
			continue
		}
		answer.Tips[ref] = tip
	}
	if f.silent != nil && !f.answered {
		return mirror.Answer{}, u.clean(f.silent)
	}
	return answer, nil
}
