package gitfilter

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
)

const (
	// patience is how many files git asks for before it is worth while to list the index.
	patience = 16
	// maxWindow is how many files are worked on ahead, maxAhead how large each may be in bytes.
	maxWindow = 16
	maxAhead  = 1 << 20
)

// ahead works on the files that git is going to ask for. Git waits for one file at a time, which leaves all processors but
// one idle; and where it looks at a whole work tree it goes through the index in order. What is found ahead counts only
// when git then asks for just that content. How far ahead it goes doubles with each file foreseen, and begins anew at one.
type ahead struct {
	vault *sealer.Vault
	blobs *gitcmd.Blobs
	root  *os.Root
	paths []string // of the index, sorted

	window int
	queue  []foreseen // in the index's order
	jobs   chan foreseen
	done   sync.WaitGroup // of the workers
}

// foreseen is a file that git should ask for.
type foreseen struct {
	path   string
	result chan found // gets one value
}

// found is the content of a file and the ciphertext that git has of it already; nothing when it has none that fits.
type found struct{ content, stored []byte }

// newAhead starts workers, which stop ends.
func newAhead(ctx context.Context, f *Filter, v *sealer.Vault) (*ahead, error) {
	entries, err := f.config.Repo.Index(ctx)
	if err != nil {
		return nil, err
	}
	blobs, err := f.stored.open(ctx)
	if err != nil {
		return nil, err
	}
	a := &ahead{vault: v, blobs: blobs, root: f.root, window: 1, jobs: make(chan foreseen, maxWindow)}
	for _, e := range entries {
		if e.IsFile() && e.Stage == 0 {
			a.paths = append(a.paths, e.Path)
		}
	}
	for range runtime.GOMAXPROCS(0) {
		a.done.Go(func() {
			for next := range a.jobs {
				next.result <- a.find(next.path)
			}
		})
	}
	return a, nil
}

// take returns the ciphertext that git has of a file, nil when nothing was foreseen, and foresees the next files.
func (a *ahead) take(path string, content []byte) []byte {
	if len(a.queue) == 0 || a.queue[0].path != path {
		a.window, a.queue = 1, nil
		a.foresee(path)
		return nil
	}
	next := a.queue[0]
	a.window, a.queue = min(2*a.window, maxWindow), a.queue[1:]
	a.foresee(path)
	if f := <-next.result; bytes.Equal(f.content, content) {
		return f.stored
	}
	return nil
}

// foresee fills the queue up to the window.
func (a *ahead) foresee(path string) {
	if len(a.queue) > 0 {
		path = a.queue[len(a.queue)-1].path
	}
	at, there := slices.BinarySearch(a.paths, path)
	if there {
		at++
	}
	for ; at < len(a.paths) && len(a.queue) < a.window; at++ {
		if must, err := a.vault.Must(a.paths[at]); err != nil || !must {
			continue
		}
		next := foreseen{a.paths[at], make(chan found, 1)}
		select {
		case a.jobs <- next:
			a.queue = append(a.queue, next)
		default: // the workers are busy with what turned out not to be asked for
			return
		}
	}
}

// find is run by the workers.
func (a *ahead) find(path string) found {
	info, err := a.root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxAhead {
		return found{}
	}
	content, err := a.root.ReadFile(path)
	if err != nil || seal.IsSealed(content) {
		return found{}
	}
	stored, _, ok, err := a.blobs.Get(":0:" + path)
	if err != nil || !ok {
		return found{}
	}
	kept, _, err := a.vault.Keep(path, content, stored)
	if err != nil || !bytes.Equal(kept, stored) {
		return found{}
	}
	return found{content, stored}
}

// stop ends the workers and waits for them. It may be called on nil.
func (a *ahead) stop() {
	if a != nil {
		close(a.jobs)
		a.done.Wait()
	}
}
