// Package httpfile owns the download of one file whose digest is known.
//
// It refuses to know what the file says. A file whose digest is not the given one is not taken in, so that whoever answers for
// the URL can change nothing. What is taken in becomes a commit of one file in the mirror, the same on every machine; once it
// is there, nobody is asked for it again.
package httpfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/workspace/archive"
	"github.com/pluralsh/plural/workspace/mirror"
)

// maxFile bounds the file, in bytes. The CRDs of the largest operators take a few MiB.
const maxFile = 32 << 20

// Options name one file.
type Options struct {
	// URL is the file's; http is for this machine only.
	URL string
	// Digest is "sha256:" and 64 hex digits.
	Digest string
	// Credentials are shown to the URL's own host only.
	Credentials httpclient.Credentials
	// NoLoopback refuses servers of this machine.
	NoLoopback bool
}

// upstream is one file.
type upstream struct {
	options Options
	counter *httpclient.Counter
}

// New makes an Upstream of a file. It asks the server nothing yet.
func New(o Options) (mirror.Upstream, error) {
	if _, err := httpclient.ParseURL(o.URL, "https", "http"); err != nil {
		return nil, fmt.Errorf("http source: %w", err)
	}
	return &upstream{options: o, counter: &httpclient.Counter{}}, nil
}

// Traffic implements mirror.Upstream.
func (u *upstream) Traffic() mirror.Traffic {
	requests, bytes := u.counter.Totals()
	return mirror.Traffic{Requests: requests, Bytes: bytes}
}

// Fetch implements mirror.Upstream. The only ref is the empty one.
func (u *upstream) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}}
	for _, ref := range refs {
		if ref != "" {
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: errors.New("a file has one state alone")})
			continue
		}
		if last := into.Tip(ref); last.ID == u.options.Digest && into.Complete(last.Commit) {
			answer.Tips[ref] = last
			continue
		}
		data, digest, err := get(ctx, u.options, u.counter)
		if err != nil {
			return mirror.Answer{}, err
		}
		if digest != u.options.Digest {
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: fmt.Errorf(
				"the file has the digest %s now, and the source says %s: look at what changed, and write the new digest if it is meant",
				digest, u.options.Digest)})
			continue
		}
		name := kustomizeurl.FileName(u.options.URL)
		commit, err := into.Tree(ctx, archive.OneFile(name, data), mirror.About{
			Author: "plural", Message: name + " " + digest, Time: time.Unix(0, 0).UTC(),
		})
		if err != nil {
			return mirror.Answer{}, fmt.Errorf("keep %s: %w", name, err)
		}
		answer.Tips[ref] = mirror.Tip{ID: digest, Commit: commit, Revision: digest[:len("sha256:")+12]}
	}
	return answer, nil
}

// Digest asks for a file and gives the digest that pins it.
func Digest(ctx context.Context, address string) (string, error) {
	_, digest, err := get(ctx, Options{URL: address}, nil)
	return digest, err
}

func get(ctx context.Context, o Options, counter *httpclient.Counter) (data []byte, digest string, err error) {
	at, err := httpclient.ParseURL(o.URL, "https", "http")
	if err != nil {
		return nil, "", err
	}
	client, err := httpclient.Client(httpclient.Options{
		For: at, Credentials: o.Credentials, MaxBytes: maxFile, Counter: counter, NoLoopback: o.NoLoopback, OtherHosts: true,
	})
	if err != nil {
		return nil, "", err
	}
	defer client.CloseIdleConnections()
	fail := func(err error) ([]byte, string, error) {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		err = fmt.Errorf("get %s://%s%s: %w", at.Scheme, at.Host, at.EscapedPath(), err)
		return nil, "", httpclient.RedactError(err, at, o.Credentials)
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return fail(err)
	}
	answer, err := client.Do(ask)
	if err != nil {
		return fail(err)
	}
	defer answer.Body.Close()
	shown := o.Credentials
	shown.CA = nil
	if err := httpclient.CheckStatus(answer, shown); err != nil {
		return fail(err)
	}
	if data, err = io.ReadAll(answer.Body); err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(data)
	return data, "sha256:" + hex.EncodeToString(sum[:]), nil
}
