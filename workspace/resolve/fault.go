package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// fault is a problem that every service with the same declaration has.
type fault struct {
	// field is which field of the service is to blame.
	field string
	// file, line and column are the place in the service's repository, where there is one.
	file         string
	line, column int
	message, fix string
	// unread faults come from reading, which may succeed the next time.
	unread bool
	// outside faults are references out of the repository.
	outside bool
	// own faults lie in the installation repo, wherever the service's files come from.
	own bool
	// source is the one that a kustomization named as a remote, and in which the file lies; empty: it lies elsewhere.
	source string
	// awaits is a source whose state is missing, wherever the file is that wants it.
	awaits string
	// mount is which of the service's mounts is to blame, counted from 1; 0 is its own files.
	mount int
}

func unreadable(err error) *fault {
	return &fault{field: "spec.source.path", message: err.Error(), unread: true}
}

// problem places a fault: in the installation repo at the culprit, for other repositories at the service.
func (f *fault) problem(s *fleet.Service) *Problem {
	source := s.Spec.Source.Name
	if f.mount > 0 {
		source = s.Spec.Mounts[f.mount-1].Source.Name
	}
	if f.source != "" {
		source = f.source
	}
	if f.own {
		source = ""
	}
	p := &Problem{Service: s.Metadata.Name, Source: source, Position: s.Place(f.field), Message: f.message, Fix: f.fix}
	p.Outside, p.Unread = f.outside, f.unread
	if f.awaits != "" {
		p.Source = f.awaits
	}
	switch at := (fleet.Position{File: f.file, Line: f.line, Column: f.column}); {
	case source != "" && f.file != "":
		p.Message = fmt.Sprintf("source %s: %s: %s", source, at, f.message)
	case source != "":
		p.Message = fmt.Sprintf("source %s: %s", source, f.message)
	case f.file != "":
		p.Position = at
	}
	return p
}

// sourceProblem says why there is no state of a source, which is named at the given field, to work from.
func sourceProblem(s *fleet.Service, source, field string, err error) *Problem {
	p := &Problem{Service: s.Metadata.Name, Source: source, Position: s.Place(field)}
	p.Message = fmt.Sprintf("source %q cannot be read: %v", source, err)
	var known interface{ Fix() string }
	switch {
	case errors.As(err, &known):
		p.Fix = known.Fix()
	case errors.Is(err, snapshot.ErrNotFetched):
		p.Message, p.Fix = fmt.Sprintf("source %q was not fetched yet", source), "see the source's status"
		reason := err.Error()
		if at := strings.LastIndex(reason, snapshot.ErrNotFetched.Error()+": "); at >= 0 {
			reason = reason[at+len(snapshot.ErrNotFetched.Error()+": "):]
		}
		if strings.HasPrefix(reason, "ref ") && strings.Contains(reason, "no such branch or tag") && s.Spec.Source.Ref != "" && field == "spec.source.name" { // all else of it may be there
			p.Position, p.Message = s.Place("spec.source.ref"), fmt.Sprintf("source %q: %s", source, reason)
			p.Fix = fmt.Sprintf("plural service set %s --ref REF", s.Metadata.Name)
		}
	case source == "":
		p.Message = fmt.Sprintf("this repository cannot be read: %v", err)
	}
	return p
}

// notPlain names what stands where a folder or file was wanted.
func notPlain(field, name string, mode fs.FileMode, fix string) *fault {
	what := "a file"
	switch mode.Type() {
	case fs.ModeDir:
		what = "a folder"
	case fs.ModeSymlink:
		what, fix = "a symbolic link, which is not followed", "put what it points to in its place"
	case fs.ModeIrregular:
		what, fix = "a submodule, which is not fetched", "add that repository as a source"
	}
	return &fault{field: field, message: fmt.Sprintf("%q is %s", name, what), fix: fix}
}

// inMount puts the blame for a fault on a mount. The fault may be shared, so it is copied.
func (f *fault) inMount(i int) *fault {
	blamed := *f
	blamed.mount, blamed.field = i+1, fmt.Sprintf("spec.mounts[%d].source.path", i)
	return &blamed
}

func tooMany(name string) *fault {
	return &fault{
		field: "spec.source.path", fix: "split the service or narrow its inputs",
		message: fmt.Sprintf("more than %d files and folders, counted at %q", bundle.DefaultLimits().Entries, name),
	}
}

// tooLarge names a file that the service reads and nobody delivers.
func tooLarge(name string, limit *snapshot.LimitError) *fault {
	message := fmt.Sprintf("%q has more than the %d bytes that a file may have which a service reads", name, limit.Max)
	if limit.Size > 0 {
		message = fmt.Sprintf("%q has %d bytes, and a file that a service reads may have %d", name, limit.Size, limit.Max)
	}
	return &fault{
		field: "spec.source.path", file: name, unread: true, // under another limit it may be brought
		message: message,
		fix:     "keep it where the service does not read it, leave it out by spec.exclude, or raise the hub's --max-file-bytes",
	}
}
