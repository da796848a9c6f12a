package gitsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/mirror"
)

// track is how a ref moved, as far as this process saw it.
type track struct {
	// been are the objects that it named before, the newest last.
	been []string
	// back is an object that it has returned to without being believed so far, turns how many fetches saw it there.
	back  string
	turns int
	// asked are the two objects whose descent the server was asked for last, and what it said.
	asked [2]string
	said  answer
}

const (
	// lagTurns is how many fetches running must see a return: a server may lag behind another one.
	lagTurns = 3
	// mostBeen bounds track.been.
	mostBeen = 16
)

func (s *Source) track(ref string) *track {
	if s.tracks[ref] == nil {
		s.tracks[ref] = &track{}
	}
	return s.tracks[ref]
}

// grafted stands behind the ids of tips with submodules' files in them.
const grafted = "+submodules"

// tipID tells tips with submodules' files in them from those without.
func (s *Source) tipID(id string) string {
	if s.options.Submodules == SubmodulesFollow {
		return id + grafted
	}
	return id
}

// settle judges what a ref names, whose objects are here as far as they could be had.
func (s *Source) settle(ctx context.Context, j *job, ref, id string) (mirror.Tip, error) {
	into := j.into
	known, way := into.Tip(ref), s.track(ref)
	if known.ID == s.tipID(id) && into.Complete(known.Commit) {
		way.back, way.turns = "", 0
		return known, s.verifyTip(ctx, j, ref, id, original(known))
	}
	commit, err := peel(into, id)
	if err != nil {
		return known, err
	}
	if err := s.verify(ctx, j, ref, id); err != nil {
		return known, err
	}
	rewound, wait := "", false
	if !isID(ref) {
		rewound, wait = s.moved(ctx, j, ref, id, commit)
	}
	if wait {
		return known, nil
	}
	if err := s.verifyTip(ctx, j, ref, id, commit); err != nil {
		return known, err
	}
	tip := mirror.Tip{ID: s.tipID(id), Commit: commit, Revision: commit, Rewound: rewound}
	if s.options.Submodules == SubmodulesFollow {
		if tip.Commit, err = s.follow(ctx, j, s.url, commit, 0); err != nil {
			return known, err
		}
	}
	way.been = append(way.been, strings.TrimSuffix(known.ID, grafted), id)
	way.been = way.been[max(0, len(way.been)-mostBeen):]
	way.back, way.turns = "", 0
	return tip, nil
}

// moved says how a ref left its history, which is empty for a plain advance, and whether to wait before that is believed.
func (s *Source) moved(ctx context.Context, j *job, ref, id, commit string) (rewound string, wait bool) {
	known, way := j.into.Tip(ref), s.track(ref)
	was := original(known)
	if was == "" || was == commit {
		return known.Rewound, false
	}
	back := way.back == id
	if s.descent(ctx, j, ref, id, was) != no {
		return "", false
	}
	rewound = fmt.Sprintf("was %.12s, which is not among the ancestors of %.12s", was, commit)
	if !back && !slices.Contains(way.been, id) && !j.left(commit) || j.hinted {
		return rewound, false
	}
	if !back {
		way.back, way.turns = id, 0
	}
	way.turns++
	return rewound, way.turns < lagTurns
}

// original is the remote's commit that a tip was made of.
func original(tip mirror.Tip) string {
	if isID(tip.Revision) {
		return tip.Revision
	}
	return tip.Commit
}

// descent asks the server once whether what a ref names has come out of the commit that it named before.
func (s *Source) descent(ctx context.Context, j *job, ref, id, was string) answer {
	way := s.track(ref)
	if pair := [2]string{was, id}; way.asked != pair {
		way.asked, way.said = pair, s.descends(ctx, j.server, id, was)
	}
	return way.said
}

// left says that a commit was served before and is no more: it is here, and no ref is at it. That is all there is to know
// after a restart.
func (j *job) left(commit string) bool {
	return slices.Contains(j.into.Commits(), commit) &&
		!slices.ContainsFunc(j.refs, func(ref string) bool { return j.into.Tip(ref).Commit == commit })
}

// peel follows annotated tags to a commit.
func peel(into mirror.Receiver, id string) (commit string, err error) {
	const mostTags = 5
	for range mostTags {
		kind, body, err := into.Object(id)
		if err != nil {
			return "", err
		}
		if kind == "commit" {
			return id, nil
		}
		object, rest, _ := strings.Cut(string(body), "\n")
		target, isObject := strings.CutPrefix(object, "object ")
		of, _, _ := strings.Cut(rest, "\n")
		of, isType := strings.CutPrefix(of, "type ")
		if !isObject || !isType || !isID(target) {
			return "", fmt.Errorf("tag %s is malformed", id)
		}
		if of != "commit" && of != "tag" {
			return "", fmt.Errorf("tag %s names a %.20s, not a commit", id, of)
		}
		id = target
	}
	return "", errors.New("tag is nested too deep")
}
