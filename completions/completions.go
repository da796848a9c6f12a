// Package completions owns completions of arguments.
//
// It refuses to know any shell, any command and how a hub is spoken to.
//
// A Finder asks the person's own machine first: the files of the clone of the installation repo, read as far as they say names.
// What those do not know a hub is asked for, and its answer stands on disk for a few seconds, because people press tab more than
// once. All of it together takes a bounded time, after which there are no words, and no error: a shell has no place for one.
package completions

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Kind says what is named.
type Kind string

// Kinds of names.
const (
	Clusters Kind = "cluster"
	Services Kind = "service"
	Sources  Kind = "source"
	// Packages are installations of packages; Catalog are packages that can be installed.
	Packages Kind = "package"
	Catalog  Kind = "catalog"
	// Groups and Members are who can open sealed files; Users are people with roles.
	Groups  Kind = "group"
	Members Kind = "member"
	Users   Kind = "user"
	// Fleets are the clusters of the fleets of this machine, Processes what runs of them; Contexts are those of the kubeconfig.
	Fleets    Kind = "local"
	Processes Kind = "process"
	Contexts  Kind = "context"
	// Tags are those that clusters have, as KEY=VALUE.
	Tags Kind = "tag"
	// Commits are the newest of the installation repo.
	Commits Kind = "commit"
	// Files and Folders are left to the shell; Nothing is made up by the person.
	Files   Kind = "file"
	Folders Kind = "folder"
	Nothing Kind = ""
)

// Word is something that an argument may become.
type Word struct {
	Text string `json:"text"`
	// About says more of it, on one line; it may be empty.
	About string `json:"about,omitempty"`
}

// Lookup gives words of a kind. Those that do not begin with prefix may be left out. Where it cannot know any the error is an
// ErrUnknown; an empty answer means that there are none.
type Lookup func(ctx context.Context, kind Kind, prefix string) ([]Word, error)

// ErrUnknown means that names of a kind are not known to a Lookup.
var ErrUnknown = errors.New("names of this kind are not known here")

// Within is how long a search may take. With the start of a program before it, a person waits for at most 200 ms.
const Within = 120 * time.Millisecond

// Finder finds words where they are known.
type Finder struct {
	// Near are asked one after the other until one knows: nothing of theirs takes long.
	Near []Lookup
	// Far is asked where none of them does; it may be nil. Its answers are kept in Cache.
	Far   Lookup
	Cache Cache
}

// Find gives the words of a kind that begin with prefix, or none when time is up.
func (f *Finder) Find(ctx context.Context, kind Kind, prefix string) []Word {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	// The search ends with the process: reading a file cannot be broken off, and a shell waits.
	found := make(chan []Word, 1)
	go func() { found <- beginning(f.look(ctx, kind, prefix), prefix) }()
	select {
	case words := <-found:
		return words
	case <-ctx.Done():
		return nil
	}
}

func (f *Finder) look(ctx context.Context, kind Kind, prefix string) []Word {
	for _, near := range f.Near {
		words, err := near(ctx, kind, prefix)
		if err == nil {
			return words
		}
	}
	if f.Far == nil {
		return nil
	}
	if words, ok := f.Cache.get(kind, prefix); ok {
		return words
	}
	words, err := f.Far(ctx, kind, prefix)
	if err != nil {
		return nil
	}
	f.Cache.put(kind, prefix, words)
	return words
}

func beginning(words []Word, prefix string) []Word {
	var kept []Word
	for _, w := range words {
		if strings.HasPrefix(w.Text, prefix) {
			kept = append(kept, w)
		}
	}
	return kept
}
