// Package completions owns the words that a half-typed argument may become.
//
// It refuses to know any shell, any command and how a hub is spoken to.
//
// A Finder asks the person's clone of the installation repo first: the names in its files, read as far as they say names. What a
// clone does not know, a hub is asked for, and its answer stands on disk for a few seconds, because people press tab more than
// once. All of it together takes a bounded time, after which there are no words, and no error: a shell has no place for one.
package completions

import (
	"context"
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
	// Fleets are the clusters of the fleets of this machine; Contexts those of the kubeconfig.
	Fleets   Kind = "local"
	Contexts Kind = "context"
	// Commits are the newest of the installation repo.
	Commits Kind = "commit"
	// Sealed are files that people seal.
	Sealed Kind = "sealed"
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

// Within is how long all of it may take.
const Within = 200 * time.Millisecond

// Lookup gives the words of a kind, as far as it knows any, of those that begin with prefix.
type Lookup func(ctx context.Context, kind Kind, prefix string) ([]Word, error)
