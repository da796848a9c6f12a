// Package fleetcache owns the last state of a fleet that this person's commands saw.
//
// It refuses to know how it was seen, and whether any of it is still so: it says when it was.
//
// There is one file for each repository, or each workspace of each hub, that only its owner can read: lines of JSON, compressed.
// The first line says what it is and how the fleet was as a whole, each further one is a cluster with its services, the last
// counts them. Save replaces the file as a whole. Load believes a file that it can read to its end, and no other.
package fleetcache

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/replace"
)

const (
	// format is the number of the form of the file; another is not read.
	format = 1
	// maxFile bounds the file, maxText what is unpacked of it, maxLine one line of that, in bytes.
	maxFile, maxText, maxLine = 64 << 20, 512 << 20, 16 << 20
	// maxWords bounds how many texts are kept once for all that say the same.
	maxWords = 8192
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

// Cluster is a cluster with its rows, sorted by service.
type Cluster struct {
	v1.Cluster
	Rows []Row `json:"rows,omitempty"`
}

// Versions are the versions of Kubernetes that clusters had, by name. Of a fleet that was not seen there are none.
func (s *Seen) Versions() map[string]string {
	versions := map[string]string{}
	if s != nil {
		for i := range s.Clusters {
			versions[s.Clusters[i].Name] = s.Clusters[i].KubernetesVersion
		}
	}
	return versions
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
	_, _ = io.WriteString(h, key) // never fails
	return Fingerprint(h.Sum64())
}

// DamagedError says that there is a file which cannot be read. The next Save puts a good one in its place.
type DamagedError struct {
	Path string
	Err  error
}

// Error names the file.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("what was last seen of the fleet cannot be read, and begins anew: %s: %v", e.Path, e.Err)
}

// Unwrap is what is wrong with it.
func (e *DamagedError) Unwrap() error { return e.Err }

// Store is where it is kept.
type Store struct{ dir, name string }

// New is the store for one workspace of one hub or, where the repository has an identity, for that: whichever address its hub has
// then, and whichever other fleet may have had that address, its fleet is its own. config is the person's own folder, as
// PLURAL_CONFIG_DIR names it; empty means where the system keeps programs' state.
func New(config, hub, workspace, repository string) *Store {
	dir := filepath.Join(xdg.StateHome, "plural", "seen")
	if config != "" {
		dir = filepath.Join(config, "seen")
	}
	of := strings.TrimRight(hub, "/") + "\x00" + workspace
	if repository != "" {
		of = repository
	}
	sum := sha256.Sum256([]byte(of))
	return &Store{dir, hex.EncodeToString(sum[:16]) + ".gz"}
}

// Path is the file's.
func (s *Store) Path() string { return filepath.Join(s.dir, s.name) }

// Load reads what was seen last; nil: nothing was. The error is a *DamagedError.
func (s *Store) Load() (*Seen, error) {
	file, err := os.Open(s.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &DamagedError{s.Path(), err}
	}
	defer file.Close()
	seen, err := read(file)
	if err != nil {
		return nil, &DamagedError{s.Path(), err}
	}
	return seen, nil
}

// Save puts what is seen in the place of what was. clusters come by name; it keeps none of them.
func (s *Store) Save(head Head, clusters iter.Seq[Cluster]) error {
	content, err := write(head, clusters)
	if err != nil {
		return fmt.Errorf("keep what was seen: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("keep what was seen: %w", err)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("keep what was seen: %w", err)
	}
	defer root.Close()
	if err := replace.File(root, s.name, content, 0o600); err != nil {
		return fmt.Errorf("keep what was seen: %w", err)
	}
	return nil
}

// SaveVersions keeps which version of Kubernetes clusters have, and leaves what else was seen as it is.
func (s *Store) SaveVersions(now time.Time, clusters []v1.Cluster) error {
	seen, _ := s.Load() // a damaged file begins anew
	if seen == nil {
		seen = &Seen{Head: Head{At: now}}
	}
	changed := false
	for i := range clusters {
		c := &clusters[i]
		at, known := slices.BinarySearchFunc(seen.Clusters, c.Name, func(s Cluster, name string) int { return strings.Compare(s.Name, name) })
		switch {
		case c.KubernetesVersion == "" || known && seen.Clusters[at].KubernetesVersion == c.KubernetesVersion:
			continue
		case !known:
			seen.Clusters = slices.Insert(seen.Clusters, at, Cluster{Cluster: *c})
		}
		seen.Clusters[at].KubernetesVersion, changed = c.KubernetesVersion, true
	}
	if !changed {
		return nil
	}
	return s.Save(seen.Head, slices.Values(seen.Clusters))
}

// first is the first line, last the last one.
type first struct {
	Format int `json:"format"`
	Head
}

type last struct {
	End *int `json:"end"`
}

func write(head Head, clusters iter.Seq[Cluster]) ([]byte, error) {
	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	lines := json.NewEncoder(packed)
	err = lines.Encode(first{format, head})
	count := 0
	for c := range clusters {
		if err != nil {
			break
		}
		count++
		err = lines.Encode(&c)
	}
	if err == nil {
		err = lines.Encode(last{&count})
	}
	if err := errors.Join(err, packed.Close()); err != nil {
		return nil, err
	}
	if out.Len() > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return out.Bytes(), nil
}

// read is the opposite of write.
func read(from io.Reader) (*Seen, error) {
	unpacked, err := gzip.NewReader(bufio.NewReader(io.LimitReader(from, maxFile)))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(io.LimitReader(unpacked, maxText))
	lines.Buffer(nil, maxLine)
	if !lines.Scan() {
		return nil, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	var head first
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
		return nil, err
	}
	if head.Format != format {
		return nil, fmt.Errorf("it is of form %d, and this program reads %d", head.Format, format)
	}
	seen, known := &Seen{Head: head.Head}, words{}
	for lines.Scan() {
		var line struct {
			Cluster
			last
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, err
		}
		if line.End != nil {
			if err := whole(seen, *line.End, lines); err != nil {
				return nil, err
			}
			return seen, nil
		}
		known.once(&line.Cluster)
		seen.Clusters = append(seen.Clusters, line.Cluster)
	}
	return nil, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
}

// whole says what keeps a file from being what was written.
func whole(seen *Seen, count int, rest *bufio.Scanner) error {
	if rest.Scan() || rest.Err() != nil {
		return cmp.Or(rest.Err(), errors.New("there is more after its end"))
	}
	if count != len(seen.Clusters) {
		return fmt.Errorf("it has %d clusters of %d", len(seen.Clusters), count)
	}
	byName := func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) }
	byService := func(a, b Row) int { return strings.Compare(a.Service, b.Service) }
	if !slices.IsSortedFunc(seen.Clusters, byName) ||
		slices.ContainsFunc(seen.Clusters, func(c Cluster) bool { return !slices.IsSortedFunc(c.Rows, byService) }) {
		return errors.New("it is not in order")
	}
	return nil
}

// words keep texts that many rows have once.
type words map[string]string

func (w words) once(c *Cluster) {
	for i := range c.Rows {
		r := &c.Rows[i]
		r.Service, r.Phase = w.one(r.Service), v1.Phase(w.one(string(r.Phase)))
		r.Version, r.Message = w.one(r.Version), w.one(r.Message)
	}
}

func (w words) one(text string) string {
	if known, ok := w[text]; ok {
		return known
	}
	if len(w) < maxWords {
		w[text] = text
	}
	return text
}
