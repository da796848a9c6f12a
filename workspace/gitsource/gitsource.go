// Package gitsource owns fetching from git remotes.
//
// [New] makes a [mirror.Upstream] of a repository's URL. It speaks git's own protocol, over HTTP, over SSH, and to the
// git program for repositories on this disk. A poll asks for the wanted refs alone (protocol version 2's ls-refs), where
// the server can; what is new comes as one commit without its history. A ref that left its history is followed and
// flagged; a remote that answers now this, now that older state is not followed to and fro. Signatures are judged by
// whoever makes the upstream; submodules are followed on request, on the same host only.
//
// The package keeps nothing on disk: packs go to the mirror, which verifies them, and what is remembered from one fetch to
// the next only saves traffic.
//
// A fetch reads from the top of [Source.Fetch] to its end: look at the refs, bring the objects, settle each ref.
package gitsource

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/pluralsh/plural/crypto/verify"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
)

// maxAnswer bounds one answer of a remote: the largest pack that a mirror takes, and room.
const maxAnswer = 576 << 20

// ErrUndecided is why something is not believed that may be when it is looked at again.
var ErrUndecided = errors.New("cannot be judged now")

// SubmodulesFollow is the one value of Options.Submodules beside the empty one.
const SubmodulesFollow = "follow"

// Options describe one remote.
type Options struct {
	// URL is https, ssh, http to this machine, or file where AllowFile says so.
	URL string
	// AllowFile admits file URLs: the git program then runs on this machine.
	AllowFile bool
	// NoLoopback refuses servers of this machine.
	NoLoopback bool
	// Credentials are shown to the URL's host only. For ssh they must hold a private key and the host's keys.
	Credentials httpclient.Credentials
	// Branches says that short refs are branches: a tag of the same name counts for nothing.
	Branches bool
	// Submodules is "" to leave them alone, or "follow" to put the pinned commits' files in their places.
	Submodules string
	// Check judges the signature of what a ref names: the tag's, of the same name, or the branch's commit's. Nil judges nothing.
	// A verdict is remembered, but for those that wrap ErrUndecided.
	Check func(context.Context, verify.Object) error
	// DescendsFrom is a commit that every branch has to come out of; empty wants none. It needs a Check.
	DescendsFrom string
	// Rewinds is "" to refuse a verified branch that left what was verified of it before, or "follow".
	Rewinds string
	// Stall is how long an answer may pause before it is given up; zero means httpclient.DefaultStall.
	Stall time.Duration
}

// Source is one git remote. Fetch is for one caller at a time, its other methods for any.
type Source struct {
	options Options
	url     *url.URL
	wire    wire
	count   *httpclient.Counter
	hinted  atomic.Bool

	// What follows belongs to Fetch. All of it may be lost.
	server *greeting // of a server that speaks version 2 over HTTP: its greeting is not asked for again
	// unfiltered says that the server sends files of any size, or nothing.
	unfiltered bool
	tried      map[string]error
	verdicts   map[verdict]error
	proofs     map[descent]bool
	absent     map[string]string // commits that an old server did not have, by its fingerprint then
	tracks     map[string]*track
	modules    map[string]*Source
}

// New makes the upstream, a *Source. It does not touch the network.
func New(o Options) (mirror.Upstream, error) {
	s, err := newSource(o, &httpclient.Counter{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newSource(o Options, count *httpclient.Counter) (*Source, error) {
	u, err := parseURL(o.URL, o.AllowFile)
	if err != nil {
		return nil, err
	}
	if o.Rewinds != "" && o.Rewinds != RewindsFollow {
		return nil, fmt.Errorf("rewinds: %q is neither empty nor %q", o.Rewinds, RewindsFollow)
	}
	if o.DescendsFrom != "" && !isID(o.DescendsFrom) {
		return nil, fmt.Errorf("descends from %.100q: write the 40 hex digits of a commit", o.DescendsFrom)
	}
	if (o.DescendsFrom != "" || o.Rewinds != "") && o.Check == nil {
		return nil, errors.New("what a branch descends from is judged beside its signature: name the keys that sign it")
	}
	if o.Submodules != "" && o.Submodules != SubmodulesFollow {
		return nil, fmt.Errorf("submodules: %q is neither empty nor %q", o.Submodules, SubmodulesFollow)
	}
	if o.Stall <= 0 {
		o.Stall = httpclient.DefaultStall
	}
	s := &Source{
		options: o, url: u, count: count, tried: map[string]error{}, verdicts: map[verdict]error{},
		proofs: map[descent]bool{}, absent: map[string]string{}, tracks: map[string]*track{}, modules: map[string]*Source{},
	}
	switch u.Scheme {
	case "file":
		s.wire = newLocal(u.Path, count, o.Stall)
	case "ssh":
		s.wire, err = newShell(o, u, count, o.Stall)
	default:
		s.wire, err = newWeb(o, u, count)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", httpclient.Redact(o.URL), httpclient.RedactError(err, u, o.Credentials))
	}
	return s, nil
}

func parseURL(raw string, allowFile bool) (*url.URL, error) {
	schemes := []string{"https", "ssh", "http"}
	if allowFile {
		schemes = append(schemes, "file")
	}
	return httpclient.ParseURL(Expand(raw), schemes...)
}

// shortSSH is user@host:path.
var shortSSH = regexp.MustCompile(`^([A-Za-z0-9._-]+)@([A-Za-z0-9.-]+):/?([^:\s/]\S*)$`)

// Expand writes git's short form of an ssh URL, user@host:path, in full. Any other URL stays as it is.
func Expand(raw string) string { return shortSSH.ReplaceAllString(raw, "ssh://$1@$2/$3") }

// Traffic counts since the source was made, submodules' included.
func (s *Source) Traffic() mirror.Traffic {
	requests, bytes := s.count.Totals()
	return mirror.Traffic{Requests: requests, Bytes: bytes}
}

// Hint says that somebody asked for the next fetch: a return to an older commit, which may otherwise be a lagging
// server's, is then believed at once.
func (s *Source) Hint() { s.hinted.Store(true) }

// Fetch implements mirror.Upstream. A ref is a branch, a tag, a full ref name, a commit's 40 hex digits, or "" and "HEAD"
// for the remote's default branch. Errors show no credentials.
func (s *Source) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	defer s.wire.rest()
	answer, err := s.fetch(ctx, refs, into)
	if err == nil {
		return answer, nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return mirror.Answer{}, fmt.Errorf("fetch %s: %w", httpclient.Redact(s.options.URL), s.redact(err))
}

func (s *Source) redact(err error) error {
	return httpclient.RedactError(err, s.url, s.options.Credentials)
}

func (s *Source) fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	look, problems := lookFor(refs, s.options.Branches)
	at, server, empty, err := s.look(ctx, look)
	if err != nil {
		return mirror.Answer{}, err
	}
	found, names, missing := resolve(refs, s.options.Branches, at, empty)
	problems = append(problems, missing...)
	defer s.forget(refs, found)
	j := &job{server: server, refs: refs, names: names, into: into, haves: haves(refs, into), hinted: s.hinted.Swap(false)}
	failed, err := s.bringAll(ctx, j, found)
	if err != nil {
		return mirror.Answer{}, err
	}
	answer := mirror.Answer{Tips: map[string]mirror.Tip{}, Problems: problems}
	for _, ref := range sortedKeys(found) {
		err := failed[found[ref]]
		if err == nil {
			answer.Tips[ref], err = s.settle(ctx, j, ref, found[ref])
		}
		if err != nil {
			delete(answer.Tips, ref)
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: s.redact(err)})
		}
	}
	return answer, ctx.Err()
}

// job is what one fetch works with.
type job struct {
	server *greeting
	refs   []string
	// names are the full names that refs were found by.
	names map[string]string
	into  mirror.Receiver
	// haves are commits that the server need not send again.
	haves []string
	// since is how far back history is asked for, in seconds; zero asks for none.
	since  int64
	hinted bool
}

// look asks what the refs name now. A server whose greeting is known is spared it, until it answers otherwise than before.
func (s *Source) look(ctx context.Context, look lookout) (at map[string]string, server *greeting, empty bool, err error) {
	if s.server != nil {
		if at, empty, err = s.list(ctx, s.server, look); err == nil || !changed(err) {
			return at, s.server, empty, err
		}
		s.server = nil
	}
	if server, err = s.wire.greet(ctx, look); err != nil {
		return nil, nil, false, err
	}
	if !server.v2 {
		return server.refs, server, !server.listed, nil
	}
	if at, empty, err = s.list(ctx, server, look); err == nil {
		if _, lasting := s.wire.(*web); lasting {
			s.server = server
		}
	}
	return at, server, empty, err
}

// changed says whether a server may have moved, or be another one, since it greeted.
func changed(err error) bool {
	if status := new(httpclient.StatusError); errors.As(err, &status) {
		return status.Code < 500 && status.Code != 401 && status.Code != 403
	}
	retry, stall, network := new(httpclient.RetryError), new(httpclient.StallError), interface{ Timeout() bool }(nil)
	return !errors.As(err, &retry) && !errors.As(err, &stall) && !errors.As(err, &network) &&
		!errors.Is(err, context.Canceled)
}

// list is version 2's ls-refs. Where a ref is missing it asks once more, whether there is anything at all.
func (s *Source) list(ctx context.Context, server *greeting, look lookout) (at map[string]string, empty bool, err error) {
	at, _, err = s.listPrefixes(ctx, server, look, look.prefixes(), false)
	if err != nil || len(at) > 0 || len(look.names) == 0 {
		return at, false, err
	}
	if !server.has("ls-refs", "unborn") {
		return at, false, nil
	}
	_, empty, err = s.listPrefixes(ctx, server, look, []string{"HEAD"}, true)
	return at, empty, err
}

func (s *Source) listPrefixes(
	ctx context.Context, server *greeting, look lookout, prefixes []string, unborn bool,
) (at map[string]string, empty bool, err error) {
	q := server.command("ls-refs")
	if unborn {
		q.line("unborn")
		q.line("symrefs")
	}
	for _, prefix := range prefixes {
		q.line("ref-prefix %s", prefix)
	}
	q.WriteString(flushPacket)
	res, err := s.wire.ask(ctx, 2, q.String())
	if err != nil {
		return nil, false, err
	}
	defer res.Close()
	return readListing(res, look)
}

// command begins a request of version 2.
func (g *greeting) command(name string) *request {
	q := &request{}
	q.line("command=%s", name)
	if _, ok := g.can["agent"]; ok {
		q.line("agent=plural")
	}
	if _, ok := g.can["object-format"]; ok {
		q.line("object-format=sha1")
	}
	q.WriteString(delimPacket)
	return q
}
