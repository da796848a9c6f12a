// Package converge owns the wait until a new fleet runs its newest commit.
//
// It refuses to know how the fleet came up, and how its hub is reached. What is refused, and what has been ill for a while, ends the
// wait at once: nothing of it gets well by itself.
package converge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

const (
	// NameAfter is when a person is told what is waited for, and why.
	NameAfter = 5 * time.Second
	// patience is how many times as long what is under way may take of which its cluster warns: an image that cannot be pulled is
	// tried for ten minutes before its Deployment has failed, and what starts slowly is warned of too.
	patience = 6
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

// Wait is one wait: for the commit Head on at least so many Clusters.
type Wait struct {
	Head     string
	Clusters int
	// Own are the clusters that are waited for, by name; none: all that the fleet has. Whoever brings a few up can do nothing about
	// the others.
	Own []string
	// Failing is how long something may be ill before nobody waits for it any more: agents try again.
	Failing time.Duration

	begun    time.Time
	since    map[string]time.Time
	clusters []v1.Cluster // as the hub listed them last
}

// Look is one look at what the hub says: how far the fleet is, and whether the wait has ended, by an error if not well. The
// clusters are all of the fleet, listed after the status; a wait for all, or the status of a fleet that has converged, needs none.
func (w *Wait) Look(s *v1.Status, clusters []v1.Cluster) (detail string, ended bool, err error) {
	now := time.Now()
	w.clusters = clusters
	if w.begun.IsZero() {
		w.begun, w.since = now, map[string]time.Time{}
	}
	switch {
	case s.Head.ID == w.Head && len(s.Refused) > 0:
		p := s.Refused[0]
		return "", true, fmt.Errorf("the hub refuses commit %.12s: %s:%d: %s", w.Head, p.File, p.Line, p.Message)
	case s.Converged() && s.Commit.ID == w.Head && s.Clusters.Total() >= w.Clusters:
		detail = fmt.Sprintf("%s, %s at %.7s", count(s.Clusters.Total(), "cluster"), count(s.Services.Total(), "service"), w.Head)
		return detail + suspended(s), true, nil
	case s.Commit.ID == w.Head && w.ownHealthy():
		return fmt.Sprintf("%s, at %.7s", count(len(w.Own), "cluster"), w.Head) + suspended(s), true, nil
	}
	if ill := w.lasting(s, now); len(ill) > 0 {
		return "", true, &UnwellError{Problems: ill}
	}
	healthy, total := s.Deployments[v1.Healthy], s.Deployments.Total()
	if own := w.own(); len(own) > 0 {
		healthy, total = 0, 0
		for i := range own {
			healthy, total = healthy+own[i].Ready, total+own[i].Services
		}
	}
	detail = fmt.Sprintf("%d of %d deployments healthy", healthy, total) + suspended(s)
	if now.Sub(w.begun) >= NameAfter {
		detail += "; waiting for " + told(w.lacking(s))
	}
	return detail, false, nil
}

// Late is the error of a wait that was given up for err, while the hub said this last.
func (w *Wait) Late(s *v1.Status, err error) error {
	return &UnwellError{Problems: w.lacking(s), Err: err}
}

func suspended(s *v1.Status) string {
	if s.Suspended == 0 {
		return ""
	}
	return fmt.Sprintf(", %d suspended", s.Suspended)
}

// lacking is what keeps a fleet from having converged.
func (w *Wait) lacking(s *v1.Status) []v1.Problem {
	list := w.unwell(s)
	switch absent := w.Clusters - s.Clusters[v1.Healthy]; {
	case s.Commit.ID != w.Head:
		list = append(list, v1.Problem{Message: fmt.Sprintf("the hub to serve commit %.7s", w.Head)})
	case len(list) > 0:
	case len(w.own()) > 0:
		for _, name := range w.Own {
			if c := w.cluster(name); c == nil {
				list = append(list, v1.Problem{Message: "cluster " + name + " to be served"})
			} else if c.Phase != v1.Healthy {
				list = append(list, v1.Problem{Message: sayCluster(c)})
			}
		}
	case absent > 0:
		list = append(list, v1.Problem{Message: count(absent, "cluster") + " to report"})
	case s.Head.ID != s.Commit.ID:
		list = append(list, v1.Problem{Message: fmt.Sprintf("the hub to serve commit %.7s", s.Head.ID)})
	default:
		list = append(list, v1.Problem{Message: count(s.Clusters.Total()-s.Clusters[v1.Healthy], "cluster") + " to be healthy"})
	}
	return list
}

// cluster is the one of a name, as the hub listed it last; nil where it did not.
func (w *Wait) cluster(name string) *v1.Cluster {
	i := slices.IndexFunc(w.clusters, func(c v1.Cluster) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &w.clusters[i]
}

// own are those of the listed clusters that are waited for.
func (w *Wait) own() []v1.Cluster {
	return slices.DeleteFunc(slices.Clone(w.clusters), func(c v1.Cluster) bool { return !slices.Contains(w.Own, c.Name) })
}

func (w *Wait) ownHealthy() bool {
	own := w.own()
	return len(own) > 0 && len(own) == len(w.Own) && !slices.ContainsFunc(own, func(c v1.Cluster) bool { return c.Phase != v1.Healthy })
}

// waitsFor says whether what is not well is waited for: it is not where it is of another's cluster alone.
func (w *Wait) waitsFor(cluster string) bool {
	return len(w.Own) == 0 || cluster == "" || slices.Contains(w.Own, cluster)
}

// Elsewhere are the clusters that were not waited for and are not well, each with why.
func (w *Wait) Elsewhere(s *v1.Status) []v1.Problem {
	var list []v1.Problem
	for i := range w.clusters {
		c := &w.clusters[i]
		if c.Phase == v1.Healthy || w.waitsFor(c.Name) {
			continue
		}
		p := v1.Problem{Cluster: c.Name, Message: sayCluster(c), Fix: "plural cluster get " + c.Name}
		d := slices.IndexFunc(s.Unhealthy, func(d v1.Deployment) bool { return d.Cluster == c.Name })
		if c.Message == "" && d >= 0 { // it is there, and what runs on it is not well
			p.Message += ": " + Say(v1.Problem{Service: s.Unhealthy[d].Service, Message: s.Unhealthy[d].Message})
		}
		list = append(list, p)
	}
	return list
}

// sayCluster is how a cluster is that is not well.
func sayCluster(c *v1.Cluster) string {
	text := "cluster " + c.Name + " is " + string(c.Phase)
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// unwell is what is not well of what is waited for, the worst first.
func (w *Wait) unwell(s *v1.Status) []v1.Problem {
	list := slices.DeleteFunc(slices.Clone(s.Held), func(p v1.Problem) bool { return !w.waitsFor(p.Cluster) })
	for i := range s.Unhealthy {
		d := &s.Unhealthy[i]
		if !w.waitsFor(d.Cluster) {
			continue
		}
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

// lasting is what has been ill for long enough.
func (w *Wait) lasting(s *v1.Status, now time.Time) []v1.Problem {
	var list []v1.Problem
	ill := map[string]bool{}
	fetching := slices.ContainsFunc(s.Sources, func(source v1.Source) bool { return source.LastFetch == nil && source.Error == "" })
	for _, p := range w.unwell(s) {
		after := w.Failing
		switch phase := v1.Phase(p.Reason); {
		case phase == v1.Progressing && warned(s, p):
			after *= patience
		case phase != "" && phase != v1.Held && phase != v1.Degraded && phase != v1.Failed:
			continue // it is under way
		case phase != v1.Degraded && phase != v1.Failed && fetching:
			continue // what holds it may be on its way
		}
		key := p.Service + " " + p.Cluster
		if ill[key] = true; w.since[key].IsZero() {
			w.since[key] = now
		}
		if now.Sub(w.since[key]) >= after {
			list = append(list, p)
		}
	}
	for key := range w.since {
		if !ill[key] {
			delete(w.since, key)
		}
	}
	return list
}

// warned says whether a deployment's cluster warns of one of its objects.
func warned(s *v1.Status, of v1.Problem) bool {
	return slices.ContainsFunc(s.Unhealthy, func(d v1.Deployment) bool {
		return d.Service == of.Service && d.Cluster == of.Cluster &&
			slices.ContainsFunc(d.Problems, func(p v1.Problem) bool { return p.Reason == v1.ReasonWarning })
	})
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

// count is "1 cluster", "2 clusters".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
