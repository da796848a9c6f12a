package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// nameAfter is when it is told what is waited for, and why.
	nameAfter = 5 * time.Second
	// failing is how long something may be ill while a fleet comes up before nobody waits for it any more: agents try again.
	failing = 10 * time.Second
	// mostNamed is how much is named of what is not well.
	mostNamed = 20
)

// UnwellError means that a fleet is up, and not everything is well on it.
type UnwellError struct {
	// Problems are what is not well, each with its reason.
	Problems []v1.Problem
	// Err is why it is not waited for any longer; nil: it will not get well by itself.
	Err error
}

// Error names a few.
func (e *UnwellError) Error() string {
	text := "not everything is well: " + told(e.Problems)
	if e.Err != nil {
		text = fmt.Sprintf("%v, waiting for %s", e.Err, told(e.Problems))
	}
	return text
}

// Unwrap is why it was not waited for any longer.
func (e *UnwellError) Unwrap() error { return e.Err }

// converge waits until every cluster runs what the newest commit asks for, or something has been ill for a while.
func (b *bringUp) converge(ctx context.Context, step string) (*v1.Status, string, error) {
	var status *v1.Status
	begun, since := time.Now(), map[string]time.Time{}
	var ill []v1.Problem
	err := b.until(ctx, func() (bool, error) {
		now, err := b.Options.Status(ctx, b.hubURL, b.token)
		if err != nil {
			b.Reporter.Detail(step, "the hub does not answer")
			return false, err
		}
		status = now
		if status.Head.ID == b.head && len(status.Refused) > 0 {
			return true, nil
		}
		if status.Converged() && status.Commit.ID == b.head && status.Clusters.Total() >= len(b.Options.Clusters) {
			return true, nil
		}
		detail := well(status)
		if time.Since(begun) >= nameAfter {
			detail += "; waiting for " + told(b.lacking(status))
		}
		b.Reporter.Detail(step, detail)
		ill = lasting(status, since, time.Now())
		return len(ill) > 0, nil
	})
	switch {
	case err != nil && status != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errTakenDown):
		return status, "", &UnwellError{Problems: b.lacking(status), Err: context.Cause(ctx)}
	case err != nil:
		return status, "", err
	case len(status.Refused) > 0 && status.Head.ID == b.head:
		p := status.Refused[0]
		return status, "", fmt.Errorf("the hub refuses commit %.12s: %s:%d: %s", b.head, p.File, p.Line, p.Message)
	case len(ill) > 0:
		return status, "", &UnwellError{Problems: ill}
	}
	text := fmt.Sprintf("%s, %s at %.7s", count(status.Clusters.Total(), "cluster"), count(status.Services.Total(), "service"), b.head)
	if status.Suspended > 0 {
		text += fmt.Sprintf(", %d suspended", status.Suspended)
	}
	return status, text, nil
}

// well is how far a fleet is.
func well(s *v1.Status) string {
	text := fmt.Sprintf("%d of %d deployments healthy", s.Deployments[v1.Healthy], s.Deployments.Total())
	if s.Suspended > 0 {
		text += fmt.Sprintf(", %d suspended", s.Suspended)
	}
	return text
}

// lacking is what keeps a fleet from having converged.
func (b *bringUp) lacking(s *v1.Status) []v1.Problem {
	list := unwell(s)
	switch {
	case s.Commit.ID != b.head:
		list = append(list, v1.Problem{Message: fmt.Sprintf("the hub to serve commit %.7s", b.head)})
	case len(list) == 0:
		list = append(list, v1.Problem{Message: fmt.Sprintf("%d clusters to report", len(b.Options.Clusters)-s.Clusters[v1.Healthy])})
	}
	return list
}

// unwell is what is not well, the worst first.
func unwell(s *v1.Status) []v1.Problem {
	list := slices.Clone(s.Held)
	for i := range s.Unhealthy {
		d := &s.Unhealthy[i]
		if slices.ContainsFunc(s.Held, func(p v1.Problem) bool { return p.Service == d.Service && (p.Cluster == "" || p.Cluster == d.Cluster) }) {
			continue
		}
		p := v1.Problem{Service: d.Service, Cluster: d.Cluster, Reason: string(d.Phase), Message: d.Message}
		if p.Message == "" && len(d.Problems) > 0 {
			p.Message = d.Problems[0].Message
		}
		if d.Held != nil {
			p.Message, p.Fix = count(d.Held.Count, "deletion")+" wait for a person", "plural service ack "+d.Service
		}
		list = append(list, p)
	}
	return list[:min(len(list), mostNamed)]
}

// lasting is what has been ill for long enough. since is when each was first.
func lasting(s *v1.Status, since map[string]time.Time, now time.Time) []v1.Problem {
	var list []v1.Problem
	ill := map[string]bool{}
	fetching := slices.ContainsFunc(s.Sources, func(source v1.Source) bool { return source.LastFetch == nil && source.Error == "" })
	for _, p := range unwell(s) {
		switch phase := v1.Phase(p.Reason); {
		case phase != "" && phase != v1.Held && phase != v1.Degraded && phase != v1.Failed:
			continue // it is under way
		case phase != v1.Degraded && phase != v1.Failed && fetching:
			continue // what holds it may be on its way
		}
		key := p.Service + " " + p.Cluster
		if ill[key] = true; since[key].IsZero() {
			since[key] = now
		}
		if now.Sub(since[key]) >= failing {
			list = append(list, p)
		}
	}
	for key := range since {
		if !ill[key] {
			delete(since, key)
		}
	}
	return list
}

// told names a few.
func told(list []v1.Problem) string {
	const most = 3
	var parts []string
	for _, p := range list[:min(most, len(list))] {
		parts = append(parts, Say(p))
	}
	if rest := len(list) - most; rest > 0 {
		parts = append(parts, fmt.Sprintf("%d more", rest))
	}
	return strings.Join(parts, "; ")
}

// Say is one problem on one line.
func Say(p v1.Problem) string {
	if p.Service == "" {
		return p.Message
	}
	text := p.Service
	if p.Cluster != "" {
		text += " on " + p.Cluster
	}
	if p.Reason != "" {
		text += " is " + p.Reason
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return text
}
