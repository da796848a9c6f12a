package leakcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

// PrePush judges what is about to be pushed, as git tells the hook: the lines of its standard input, and the name of the
// remote, or its URL when it has none.
//
// In every commit that the remote does not have, plaintext is refused at paths that must be sealed by the policy of that
// commit or of the tip. A branch's tip is judged as a whole: what these commits bring is refused, what the remote has
// already is a warning, except plaintext. No identity is needed.
func PrePush(ctx context.Context, repo *gitcmd.Repo, lines io.Reader, remote string) (*Report, error) {
	updates, err := parseUpdates(lines)
	if err != nil {
		return nil, err
	}
	ask := gitcmd.Range{Remote: remote}
	branches := map[string]bool{}
	for _, u := range updates {
		if !isZero(u.remote) {
			ask.Known = append(ask.Known, u.remote)
		}
		if !isZero(u.local) && !slices.Contains(ask.Tips, u.local) {
			ask.Tips = append(ask.Tips, u.local)
		}
		branches[u.local] = branches[u.local] || strings.HasPrefix(u.remoteRef, "refs/heads/")
	}
	h, err := newHistory(ctx, repo, ask)
	if err != nil || h == nil {
		return &Report{}, err
	}
	defer h.close()
	for _, tip := range ask.Tips {
		if err := h.tip(ctx, tip, branches[tip]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(h.report.Warned, compareFindings)
	return &h.report, nil
}

// Commits looks for plaintext in every commit of a range, at paths that must be sealed by the policy of that commit or of
// the tip that it leads to.
func Commits(ctx context.Context, repo *gitcmd.Repo, ask gitcmd.Range) ([]Finding, error) {
	h, err := newHistory(ctx, repo, ask)
	if err != nil || h == nil {
		return nil, err
	}
	defer h.close()
	for _, tip := range ask.Tips {
		if err := h.tip(ctx, tip, false); err != nil {
			return nil, err
		}
	}
	return h.report.Refused, nil
}

// history is a range of commits that is being judged.
type history struct {
	repo  *gitcmd.Repo
	blobs *gitcmd.Blobs
	ask   gitcmd.Range

	new     []string                   // all commits, the newest first
	changes map[string][]gitcmd.Change // by commit

	policies map[string]*policy.Policy // by the name of the object; nil for one that does not read
	plain    map[string]bool           // by the name of the object: whether it holds plaintext
	judged   map[judgement]bool
	named    map[version]bool // by path and commit
	report   Report
}

// judgement is a commit under the policy of one tip.
type judgement struct{ commit, policy string }

// version is a file as one object, or as one commit, has it.
type version struct{ path, name string }

// newHistory is nil when there is nothing new.
func newHistory(ctx context.Context, repo *gitcmd.Repo, ask gitcmd.Range) (*history, error) {
	commits, err := repo.NewCommits(ctx, ask)
	if err != nil || len(commits) == 0 {
		return nil, err
	}
	changes, err := repo.Changed(ctx, commits)
	if err != nil {
		return nil, err
	}
	h := &history{
		repo: repo, ask: ask, new: commits,
		changes:  map[string][]gitcmd.Change{},
		policies: map[string]*policy.Policy{}, plain: map[string]bool{},
		judged: map[judgement]bool{}, named: map[version]bool{},
	}
	for _, c := range changes {
		h.changes[c.Commit] = append(h.changes[c.Commit], c)
	}
	h.blobs, err = repo.Blobs(ctx)
	return h, err
}

func (h *history) close() { _ = h.blobs.Close() } // all answers have been read

// tip judges one tip with the new commits that lead to it. A tip is the name of a commit, or of a tag.
func (h *history) tip(ctx context.Context, tip string, branch bool) error {
	commits := h.new
	if len(h.ask.Tips) > 1 {
		ask := h.ask
		ask.Tips = []string{tip}
		var err error
		if commits, err = h.repo.NewCommits(ctx, ask); err != nil || len(commits) == 0 {
			return err
		}
	}
	p, name, err := h.policyAt(commits[0])
	if err != nil {
		return err
	}
	if p == nil && name != "" {
		return fmt.Errorf("judge commit %s: %w", short(commits[0]), h.policyFault(commits[0]))
	}
	for i, commit := range slices.Backward(commits) {
		if err := h.commit(commit, p, name, i == 0); err != nil {
			return err
		}
	}
	if p == nil || !branch {
		return nil
	}
	return h.files(ctx, commits, p)
}

// policyAt is the policy of a commit, and the name of its object: nil and empty for none, nil and a name for one that
// does not read.
func (h *history) policyAt(commit string) (*policy.Policy, string, error) {
	text, name, ok, err := h.blobs.Get(commit + ":" + policy.File)
	if err != nil || !ok {
		return nil, "", err
	}
	p, known := h.policies[name]
	if !known {
		if p, err = policy.Parse(text); err != nil {
			p = nil
		}
		h.policies[name] = p
	}
	return p, name, nil
}

func (h *history) policyFault(commit string) error {
	text, _, _, err := h.blobs.Get(commit + ":" + policy.File)
	if err == nil {
		_, err = policy.Parse(text)
	}
	return err
}

// commit looks for plaintext among what one commit brought. A policy in the middle of the history that does not read is
// passed over: the tip's still counts, and whoever mended it could do nothing about the old one.
func (h *history) commit(commit string, tip *policy.Policy, tipName string, last bool) error {
	key := judgement{commit, tipName}
	if h.judged[key] {
		return nil
	}
	h.judged[key] = true
	own, ownName, err := h.policyAt(commit)
	if err != nil {
		return err
	}
	if own == nil && tip == nil {
		return nil
	}
	for _, change := range h.changes[commit] {
		if !change.IsFile() {
			continue
		}
		ownGroups, knew := groupsFor(own, change.Path)
		names, must := ownGroups, knew
		if !must && ownName != tipName {
			names, must = groupsFor(tip, change.Path)
		}
		if !must {
			continue
		}
		plain, err := h.isPlain(change.Entry)
		if err != nil {
			return err
		}
		if plain {
			h.refuse(change, names, last, knew)
		}
	}
	return nil
}

// groupsFor answers for a policy that may be nil. Patterns that contradict each other agree that the file must be sealed.
func groupsFor(p *policy.Policy, path string) ([]string, bool) {
	if p == nil {
		return nil, false
	}
	names, must, _ := p.Match(path) // an error is about whom to seal for
	return names, must
}

func (h *history) isPlain(e gitcmd.Entry) (bool, error) {
	plain, known := h.plain[e.Oid]
	if known {
		return plain, nil
	}
	content, err := read(h.blobs, e)
	if err != nil && !errors.Is(err, gitcmd.ErrTooLarge) {
		return false, err
	}
	plain = err != nil || len(content) > 0 && !seal.IsSealed(content)
	h.plain[e.Oid] = plain
	return plain, nil
}

func (h *history) refuse(change gitcmd.Change, names []string, last, knew bool) {
	key := version{change.Path, change.Commit}
	if h.named[key] {
		return
	}
	h.named[key] = true
	commit := short(change.Commit)
	f := Finding{Path: change.Path, Where: "commit " + commit, Kind: Plaintext, Message: "must be sealed, and is not"}
	if len(names) > 0 {
		f.Message = "must be sealed for " + strings.Join(names, ", ") + ", and is not"
	}
	f.Fix = historyFix(f, commit, last, knew)
	h.report.Refused = append(h.report.Refused, f)
}

// files judges all files of a tip. What the history has named already is not named again.
func (h *history) files(ctx context.Context, commits []string, p *policy.Policy) error {
	tip := commits[0]
	keys, err := h.repo.FS(ctx, tip)
	if err != nil {
		return err
	}
	set, err := groups.Load(keys)
	if err != nil {
		return fmt.Errorf("judge commit %s: %w", short(tip), err)
	}
	entries, err := h.repo.Tree(ctx, tip)
	if err != nil {
		return err
	}
	spots, err := Rules{Policy: p, Groups: set}.scan(h.blobs, entries)
	if err != nil {
		return fmt.Errorf("judge commit %s: %w", short(tip), err)
	}
	brought, rewritten := h.brought(commits)
	for _, s := range spots {
		fresh := brought[version{s.Path, s.Oid}]
		if s.kind == Plaintext && fresh {
			continue
		}
		widened := s.bound != nil && !sameGroups(s.bound.Groups, s.groups)
		f := s.finding("commit "+short(tip), func(f Finding) string { return tipFix(f, widened) })
		if s.kind == Plaintext || fresh || rewritten {
			h.report.Refused = append(h.report.Refused, f)
			continue
		}
		h.report.Warned = append(h.report.Warned, f)
	}
	return nil
}

// brought are the files that the commits brought, and whether they changed who can read what.
func (h *history) brought(commits []string) (files map[version]bool, rewritten bool) {
	files = map[version]bool{}
	for _, commit := range commits {
		for _, change := range h.changes[commit] {
			files[version{change.Path, change.Oid}] = true
			rewritten = rewritten || decidesReaders(change.Path)
		}
	}
	return files, rewritten
}

func short(oid string) string { return oid[:min(12, len(oid))] }
