// Package lastseen owns what this person's tools saw last of a fleet.
package lastseen

import (
	"errors"
	"hash/fnv"
	"iter"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Seen is what was seen of a fleet, at one time.
type Seen struct {
	Head
	// Clusters are sorted by name.
	Clusters []Cluster
}

// Head is what was seen of the fleet as a whole.
type Head struct {
	At       time.Time    `json:"at"`
	Summary  *v1.Summary  `json:"summary,omitempty"`
	Services []v1.Service `json:"services,omitempty"`
}

// Cluster is a cluster with its rows, by service.
type Cluster struct {
	v1.Cluster
	Rows []Row `json:"rows,omitempty"`
}

// Row is one service on the cluster.
type Row struct {
	Service   string   `json:"s"`
	Phase     v1.Phase `json:"p"`
	Version   string   `json:"v,omitempty"`
	Message   string   `json:"m,omitempty"`
	Ready     int32    `json:"r,omitempty"`
	Objects   int32    `json:"o,omitempty"`
	Held      int32    `json:"h,omitempty"`
	Suspended bool     `json:"u,omitempty"`
	// Applied stands for the key that was applied last.
	Applied Fingerprint `json:"k,omitempty"`
}

// Fingerprint stands for a key, in eight bytes; zero: there is none.
type Fingerprint uint64

// FingerprintOf is that of a key.
func FingerprintOf(key string) Fingerprint {
	if key == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return Fingerprint(h.Sum64())
}

// Store is where it is kept.
type Store struct{ dir, name string }

// New is the store for one workspace of one hub, in the folder dir, or where the person's state lies when that is empty.
func New(dir, hub, workspace string) *Store { return &Store{dir, hub + workspace} }

// Load reads what was seen last; nil: nothing was.
func (s *Store) Load() (*Seen, error) { return nil, errors.New("not written yet") }

// Save puts what is seen in the place of what was.
func (s *Store) Save(Head, iter.Seq[Cluster]) error { return errors.New("not written yet") }
