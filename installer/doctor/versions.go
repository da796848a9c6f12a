package doctor

import (
	"context"
	"regexp"
	"strconv"
	"strings"
)

// OldestKubernetes and NewestKubernetes are the minor versions of Kubernetes 1 that this release is for, as docs/releases.md says
// and make skew tries.
const (
	OldestKubernetes = 33
	NewestKubernetes = 37
)

// brokenMinor is the minor version of Kubernetes below which there is no Pod Security admission.
const brokenMinor = 25

// What docs/releases.md promises: how many minor versions plural may be away from its hub, and an agent older than its own.
const (
	commandSkew = 1
	agentSkew   = 2
)

func (x *exam) hubVersion(ctx context.Context) Result {
	s, why := x.told(ctx)
	if s == nil {
		return why
	}
	const fix = "use a plural of the hub's version, or upgrade the hub: plural package upgrade hub"
	switch {
	case s.Version == x.Version:
		return ok("hub and plural are version %s", x.Version)
	case major(s.Version) != major(x.Version):
		return fail(fix, "the hub is version %s, and this plural %s", s.Version, x.Version)
	}
	if ahead, known := minorsAhead(x.Version, s.Version); known && ahead >= -commandSkew && ahead <= commandSkew {
		return ok("the hub is version %s, and this plural %s: they work together", s.Version, x.Version)
	}
	return warn(fix, "the hub is version %s, and this plural %s", s.Version, x.Version)
}

// kubernetes judges the versions that agents report, of clusters which this machine may not reach.
func (x *exam) kubernetes(ctx context.Context) Result {
	if s, why := x.told(ctx); s == nil {
		return why
	}
	list, err := x.Hub.Clusters(ctx)
	if err != nil {
		return because(err, "the hub does not list the clusters", "plural status")
	}
	var outside []string
	known := 0
	for i := range list.Items {
		c := &list.Items[i]
		minor := leadingNumber(strings.TrimPrefix(c.KubernetesVersion, "v1."))
		if minor == 0 {
			continue // its agent has not said it
		}
		if known++; !supported(minor) {
			outside = append(outside, c.Name+" ("+c.KubernetesVersion+")")
		}
	}
	switch {
	case known == 0:
		return skipped("no agent has told its cluster's version")
	case len(outside) > 0:
		return warn("use clusters, or a plural, of another version", "clusters outside of Kubernetes 1.%d to 1.%d, which this plural is meant for: %s",
			OldestKubernetes, NewestKubernetes, some(outside))
	}
	return ok("Kubernetes 1.%d to 1.%d everywhere", OldestKubernetes, NewestKubernetes)
}

// minorsAhead is how many minor versions one is newer than another. It is known of releases of one major version.
func minorsAhead(one, other string) (ahead int, known bool) {
	if major(one) == "" || major(one) != major(other) {
		return 0, false
	}
	_, a, _ := strings.Cut(one, ".")
	_, b, _ := strings.Cut(other, ".")
	return leadingNumber(a) - leadingNumber(b), true
}

// major is the first number of a version; what is no release is of any.
func major(version string) string {
	number, _, found := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if !found {
		return ""
	}
	return number
}

func supported(minor int) bool { return minor >= OldestKubernetes && minor <= NewestKubernetes }

// leadingNumber is the number that a text begins with, or 0.
func leadingNumber(text string) int {
	number, _ := strconv.Atoi(regexp.MustCompile(`^\d*`).FindString(text))
	return number
}
