package shard

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"
)

// record is a lease as it is written.
type record struct {
	Member
	// Term is another one each time that its holder takes a lease anew; Beat counts the renewals within it.
	Term string `json:"term"`
	Beat uint64 `json:"beat"`
	// Knows are the terms, by ID, of all whom the holder counts as live.
	Knows map[string]string `json:"knows,omitempty"`
	// Left is set by a replica that stops.
	Left bool `json:"left,omitempty"`
}

// sighting is a lease as it was read.
type sighting struct {
	record
	revision uint64
	// seen is when this revision was first read, live whether that was less than a lease's time before the last look.
	seen time.Time
	live bool
}

// view is what this replica saw when it last looked.
type view struct {
	// at is when it last began to look and was answered.
	at      time.Time
	members map[string]sighting
}

// look takes in what was read by a look that began at began. Whoever was not renewed for a lease's time before that
// look has given up by now, since every renewal that was written before the look would have been read by it. Whose
// lease is missing has not said that it left: the leases may have been lost, and it counts as live for as long as one
// lasts.
func (v *view) look(began, now time.Time, read map[string]sighting, ttl time.Duration) {
	for id, m := range read {
		m.seen = now
		if last, ok := v.members[id]; ok && last.revision == m.revision && last.Term == m.Term {
			m.seen = last.seen
		}
		m.live = !m.Left && began.Sub(m.seen) < ttl
		read[id] = m
	}
	for id, m := range v.members {
		if _, ok := read[id]; !ok && m.live && began.Sub(m.seen) < ttl {
			read[id] = m
		}
	}
	v.at, v.members = began, read
}

// knows are the terms of all live members but self, as its lease says them.
func (v *view) knows(self string) map[string]string {
	known := make(map[string]string, len(v.members))
	for id, m := range v.members {
		if m.live && id != self {
			known[id] = m.Term
		}
	}
	return known
}

// known says whether everyone who may own something says to know the term of self.
func (v *view) known(self, term string) bool {
	if m, ok := v.members[self]; !ok || m.Term != term {
		return false
	}
	for id, m := range v.members {
		if id != self && m.live && !m.Draining && m.Knows[self] != term {
			return false
		}
	}
	return true
}

// owner is the live member, not draining, whose hash with the repository is the highest. When members come and go, no
// repository moves but from or to them.
func (v *view) owner(repo string) (owner Member, ok bool) {
	var highest uint64
	for id, m := range v.members {
		if !m.live || m.Draining {
			continue
		}
		if h := weight(id, repo); !ok || h > highest || h == highest && id < owner.ID {
			owner, highest, ok = m.Member, h, true
		}
	}
	return owner, ok
}

func weight(member, repo string) uint64 {
	sum := sha256.Sum256([]byte(member + "\x00" + repo))
	return binary.BigEndian.Uint64(sum[:])
}

// candidates names those that may own something.
func (v *view) candidates() string {
	var text strings.Builder
	for _, id := range slices.Sorted(maps.Keys(v.members)) {
		if m := v.members[id]; m.live && !m.Draining {
			text.WriteString(id + "@" + m.Peer + " ")
		}
	}
	return text.String()
}

// count is the number of live members.
func (v *view) count() (n int) {
	for _, m := range v.members {
		if m.live {
			n++
		}
	}
	return n
}
