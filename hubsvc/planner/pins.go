package planner

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/revision"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// newest gives resolve the installation repo as it is at one commit, and every source as it is now.
type newest struct {
	own   *snapshot.Snapshot
	ids   map[string]string // of upstreams, by source
	repos *gitpoller.Set
}

func (s newest) Snapshot(name, ref string) (*snapshot.Snapshot, error) {
	if name == "" {
		return s.own, nil
	}
	id, ok := s.ids[name]
	if !ok {
		return nil, fmt.Errorf("no source %q", name)
	}
	return s.repos.Snapshot(id, ref)
}

// pinned gives resolve every repository as one edition has it.
type pinned struct {
	newest
	pins map[string]revision.Pin
	// verified are the mirrors of the sources whose signatures count, by name.
	verified map[string]string
}

var errUnverified = errors.New("it was pinned before its signatures counted as they do now; what is signed has yet to be fetched")

func (s pinned) Snapshot(name, ref string) (*snapshot.Snapshot, error) {
	if name == "" {
		return s.own, nil
	}
	pin, ok := s.pins[revision.PinKey(name, ref)]
	switch {
	case !ok:
		return nil, snapshot.ErrNotFetched
	case pin.Commit == "":
		return nil, fmt.Errorf("%w: %s", snapshot.ErrNotFetched, pin.Problem)
	case pin.Verified != s.verified[name]:
		return nil, fmt.Errorf("%w: %w", snapshot.ErrNotFetched, errUnverified)
	}
	return s.repos.At(s.ids[name], pin.Commit)
}

// Version is what a source calls what an edition has of it; resolve asks for it.
func (s pinned) Version(name, ref string) string { return s.pins[revision.PinKey(name, ref)].Version }

// missing names a pinned commit that is not here yet; empty when all are.
func (s pinned) missing(list []sources.Source) string {
	for _, each := range list {
		for _, ref := range each.Want.Refs {
			pin := s.pins[revision.PinKey(each.Metadata.Name, ref)]
			if pin.Commit == "" || pin.Verified != each.Verified() {
				continue // its services are held
			}
			if _, err := s.repos.At(each.Want.ID, pin.Commit); err != nil {
				return fmt.Sprintf("commit %s of source %s", pin.Commit, each.Metadata.Name)
			}
		}
	}
	return ""
}

func verifiedOf(list []sources.Source) map[string]string {
	mirrors := make(map[string]string, len(list))
	for _, each := range list {
		mirrors[each.Metadata.Name] = each.Verified()
	}
	return mirrors
}

func idsOf(list []sources.Source) map[string]string {
	ids := make(map[string]string, len(list))
	for _, each := range list {
		ids[each.Metadata.Name] = each.Want.ID
	}
	return ids
}

// versionOf is what an upstream calls a commit, out of "6.7.0@sha256:1f0c..."; empty when it has no word for it.
func versionOf(tip mirror.Tip) string {
	version, _, named := strings.Cut(tip.Revision, "@")
	if !named {
		return ""
	}
	return version
}

// localAddress is the part of a network error that differs each time: an edition must not.
var localAddress = regexp.MustCompile(`\S+->`)

// pins are the last good commits of all that a fleet reads, as this replica has them. A mirror that may be behind changes
// nothing in what was pinned before.
func pins(list []sources.Source, repos *gitpoller.Set, before *revision.Published) map[string]revision.Pin {
	out := make(map[string]revision.Pin, len(list))
	for _, each := range list {
		synced := repos.Synced(each.Want.ID)
		for _, ref := range each.Want.Refs {
			key := revision.PinKey(each.Metadata.Name, ref)
			if before != nil && !synced {
				if pin, ok := before.Edition.Pins[key]; ok && pin.Verified == each.Verified() {
					out[key] = pin
					continue
				}
			}
			pin := revision.Pin{Verified: each.Verified()}
			if tip, err := repos.Tip(each.Want.ID, ref); err != nil {
				pin.Problem = localAddress.ReplaceAllString(err.Error(), "")
			} else {
				pin.Commit, pin.Version = tip.Commit, versionOf(tip)
			}
			out[key] = pin
		}
	}
	return out
}
