package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/mirror"
)

const (
	// maxManifest bounds what an owner says of one repository: some hundred thousand refs.
	maxManifest = 16 << 20
	// rereads bounds how often one fetch starts over because the owner compacted meanwhile.
	rereads = 3
	// resumes bounds how often one pack is asked for again after its connection broke.
	resumes = 3
)

// errGone says that an owner compacted.
var errGone = errors.New("the pack is gone")

// Upstream follows a repository by what its owner's mirror holds. Owner gives the owner's address, false while nobody
// is known to own it; note takes what the owner says of the upstream, with every fetch that it answers. An error of
// note refuses what that replica has.
func (c *Client) Upstream(
	repo string, owner func() (addr string, ok bool), note func(json.RawMessage) error,
) mirror.Upstream {
	return &upstream{client: c, repo: repo, owner: owner, note: note}
}

type upstream struct {
	client *Client
	repo   string
	owner  func() (string, bool)
	note   func(json.RawMessage) error
	traffic

	// known is what an owner said last, under etag; the one fetch at a time uses both.
	known state
	etag  string
}

func (u *upstream) Traffic() mirror.Traffic {
	return mirror.Traffic{Requests: u.requests.Load(), Bytes: u.bytes.Load()}
}

func (u *upstream) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	addr, ok := u.owner()
	if !ok {
		return mirror.Answer{}, errors.New("follow its owner: no replica is known to own the repository now")
	}
	for range rereads {
		if err := u.ask(ctx, addr); err != nil {
			return mirror.Answer{}, fmt.Errorf("follow its owner: %w", err)
		}
		answer := u.answer(refs)
		err := u.copy(ctx, addr, answer.Tips, into)
		if err == nil {
			u.keepWhole(&answer, into)
			return answer, nil
		}
		if !errors.Is(err, errGone) {
			return mirror.Answer{}, fmt.Errorf("follow its owner: %w", err)
		}
		u.etag = "" // the owner compacted: there are other packs now
	}
	err := fmt.Errorf("packs of the replica at %s vanished %d times while they were copied", addr, rereads)
	return mirror.Answer{}, fmt.Errorf("follow its owner: %w", err)
}

// ask brings known up to date.
func (u *upstream) ask(ctx context.Context, addr string) error {
	header := http.Header{}
	if u.etag != "" {
		header.Set("If-None-Match", u.etag)
	}
	answer, err := u.client.get(ctx, addr, repoPath+url.PathEscape(u.repo), header, &u.traffic)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the replica at %s does not hold the repository yet", addr)
	}
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		known, err := decode(answer.Body)
		if err != nil {
			return fmt.Errorf("read what the replica at %s holds: %w", addr, err)
		}
		u.known, u.etag = known, answer.Header.Get("ETag")
	}
	if err := u.note(u.known.Note); err != nil {
		return fmt.Errorf("the replica at %s: %w", addr, err)
	}
	if u.known.Manifest.Fetched.IsZero() {
		return fmt.Errorf("the replica at %s has not fetched the repository yet", addr)
	}
	return nil
}

func decode(r io.Reader) (state, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return state{}, err
	}
	if len(body) > maxManifest {
		return state{}, fmt.Errorf("it is larger than %d bytes", maxManifest)
	}
	var known state
	err = json.Unmarshal(body, &known)
	return known, err
}

// answer gives the owner's tips of the refs.
func (u *upstream) answer(refs []string) mirror.Answer {
	m := &u.known.Manifest
	answer := mirror.Answer{Tips: make(map[string]mirror.Tip, len(refs)), Fetched: m.Fetched}
	var held []string // commits that are there under other names, once somebody asks for one
	for _, ref := range refs {
		tip, ok := m.Tips[ref]
		if !ok && isCommit(ref) {
			if held == nil {
				held = slices.Clone(m.Before)
				for _, t := range m.Tips {
					held = append(held, t.Commit)
				}
				slices.Sort(held)
			}
			_, ok = slices.BinarySearch(held, ref)
			tip = mirror.Tip{ID: ref, Commit: ref, Revision: ref}
		}
		if !ok {
			err := errors.New("its owner has not fetched it")
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: err})
			continue
		}
		answer.Tips[ref] = tip
	}
	return answer
}

func isCommit(ref string) bool { return len(ref) == 40 && strings.Trim(ref, "0123456789abcdef") == "" }

// copy brings packs, the newest first, until all tips are complete or no pack is left. The error is errGone when the
// owner has a pack no more.
func (u *upstream) copy(ctx context.Context, addr string, tips map[string]mirror.Tip, into mirror.Receiver) error {
	var lacking []string
	for _, tip := range tips {
		lacking = append(lacking, tip.Commit)
	}
	slices.Sort(lacking)
	if err := into.LeaveOut(u.known.Manifest.LeftOut, u.known.Manifest.MaxFile); err != nil {
		return err
	}
	lacking = slices.DeleteFunc(slices.Compact(lacking), into.Complete)
	for _, pack := range u.known.Manifest.Packs {
		if len(lacking) == 0 {
			return nil
		}
		if into.HasPack(pack.Name) {
			continue
		}
		if err := u.copyPack(ctx, addr, pack, into); err != nil {
			return err
		}
		lacking = slices.DeleteFunc(lacking, into.Complete)
	}
	return nil
}

func (u *upstream) copyPack(ctx context.Context, addr string, pack mirror.Pack, into mirror.Receiver) error {
	gone := false
	body := &resumed{size: pack.Size, tries: resumes, open: func(from int64) (io.ReadCloser, error) {
		body, err := u.openPack(ctx, addr, pack.Name, from)
		if errors.Is(err, fs.ErrNotExist) {
			gone, err = true, &finalError{err}
		}
		return body, err
	}}
	defer func() { _ = body.Close() }()
	err := into.Pack(ctx, body)
	if gone { // whatever the mirror made of it
		return errGone
	}
	if err != nil {
		return fmt.Errorf("copy pack %s from the replica at %s: %w", pack.Name, addr, err)
	}
	return nil
}

// openPack asks for the part of a pack that begins at from.
func (u *upstream) openPack(ctx context.Context, addr, name string, from int64) (io.ReadCloser, error) {
	header, want := http.Header{}, http.StatusOK
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		want = http.StatusPartialContent
	}
	path := repoPath + url.PathEscape(u.repo) + packsPart + url.PathEscape(name)
	answer, err := u.client.get(ctx, addr, path, header, &u.traffic)
	if err != nil {
		return nil, err
	}
	begins := strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", from))
	if answer.StatusCode != want || from > 0 && !begins {
		err := fmt.Errorf("the replica at %s gave another part of a pack than was asked for", addr)
		return nil, &finalError{errors.Join(err, answer.Body.Close())}
	}
	return answer.Body, nil
}

// keepWhole leaves only those tips that are complete here; of the others it says so.
func (u *upstream) keepWhole(answer *mirror.Answer, into mirror.Receiver) {
	for ref, tip := range answer.Tips {
		if !into.Complete(tip.Commit) {
			delete(answer.Tips, ref)
			err := fmt.Errorf("commit %.40q is not whole in its owner's mirror", tip.Commit)
			answer.Problems = append(answer.Problems, &mirror.RefError{Ref: ref, Err: err})
		}
	}
}
