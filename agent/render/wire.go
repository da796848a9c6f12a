package render

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The conversation, one line of JSON each unless said otherwise:
//
//	parent -> child: Limits, so that the walls stand before anything of the input is parsed
//	parent -> child: request
//	parent -> child: the files as a tar archive; then silence, because the pipe's end tells the child its parent died
//	child -> parent: any number of answers that only say At
//	child -> parent: one answer that is Done

// request is an Input without its files.
type request struct {
	Renderer    string            `json:"renderer"`
	Path        string            `json:"path"`
	Namespace   string            `json:"namespace"`
	Service     string            `json:"service"`
	Parameters  map[string]string `json:"parameters"`
	Secrets     secrets           `json:"secrets"`
	Helm        Helm              `json:"helm"`
	KubeVersion string            `json:"kubeVersion"`
	APIVersions []string          `json:"apiVersions"`
}

func newRequest(in Input) (request, error) {
	if !fs.ValidPath(in.Path) {
		return request{}, &Error{
			Reason: Invalid, Message: fmt.Sprintf("path %q leaves the repository", in.Path),
			Fix: "name a folder relative to the repository's root",
		}
	}
	for _, m := range in.Mounts {
		if err := m.check(in.Files); err != nil {
			return request{}, err
		}
	}
	r := request{
		Renderer: in.Renderer, Path: in.Path, Namespace: in.Namespace, Service: in.Service,
		Parameters: in.Parameters, Secrets: secrets(in.Secrets), KubeVersion: in.KubeVersion, APIVersions: in.APIVersions,
	}
	if in.Helm != nil {
		r.Helm = *in.Helm
	}
	return r, nil
}

// secrets crosses as bytes: JSON text would change what is not UTF-8.
type secrets map[string]map[string]string

// MarshalJSON implements json.Marshaler.
func (s secrets) MarshalJSON() ([]byte, error) {
	crossing := make(map[string]map[string][]byte, len(s))
	for name, values := range s {
		crossing[name] = make(map[string][]byte, len(values))
		for key, value := range values {
			crossing[name][key] = []byte(value)
		}
	}
	return json.Marshal(crossing)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *secrets) UnmarshalJSON(data []byte) error {
	var crossing map[string]map[string][]byte
	if err := json.Unmarshal(data, &crossing); err != nil {
		return err
	}
	*s = make(secrets, len(crossing))
	for name, values := range crossing {
		(*s)[name] = make(map[string]string, len(values))
		for key, value := range values {
			(*s)[name][key] = string(value)
		}
	}
	return nil
}

// answer is one line from the child.
type answer struct {
	// At is the file being worked on, for when the child dies over it.
	At       string            `json:"at,omitempty"`
	Done     bool              `json:"done,omitempty"`
	Objects  []json.RawMessage `json:"objects,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Error    *Error            `json:"error,omitempty"`
}

func (a *answer) output() (*Output, error) {
	if a.Error != nil {
		return nil, a.Error.cleaned()
	}
	out := &Output{Objects: make([]*unstructured.Unstructured, len(a.Objects)), Warnings: a.Warnings}
	for i, raw := range a.Objects {
		out.Objects[i] = &unstructured.Unstructured{}
		if err := out.Objects[i].UnmarshalJSON(raw); err != nil {
			return nil, (&Error{Reason: Invalid, Message: fmt.Sprintf("object %d: %v", i+1, err)}).cleaned()
		}
	}
	return out, nil
}

// send writes the parent's half of the conversation.
func send(w io.Writer, limits Limits, r request, in Input) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(buffered)
	if err := errors.Join(lines.Encode(limits), lines.Encode(r)); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	files := fileSender{archive: tar.NewWriter(buffered), limits: limits}
	if err := files.send(Mount{At: ".", Path: ".", Files: in.Files}); err != nil {
		return err
	}
	for _, m := range in.Mounts {
		if err := files.send(m); err != nil {
			return err
		}
	}
	return errors.Join(files.archive.Close(), buffered.Flush())
}

// fileSender writes files up to the limits.
type fileSender struct {
	archive *tar.Writer
	limits  Limits
	count   int
	size    int64
}

func (s *fileSender) send(m Mount) error {
	return fs.WalkDir(m.Files, m.Path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		seen := m.seen(name)
		if !entry.Type().IsRegular() {
			return place{file: seen}.refused("commit a regular file", "is a link or a submodule")
		}
		data, err := fs.ReadFile(m.Files, name)
		if err != nil {
			return fmt.Errorf("read %q: %w", seen, err)
		}
		s.count, s.size = s.count+1, s.size+int64(len(data))
		if s.count > s.limits.Files || s.size > s.limits.Input {
			return place{file: seen}.limit("the service has more than %d files or %d MiB", s.limits.Files, s.limits.Input>>20)
		}
		header := &tar.Header{Name: seen, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}
		if err := s.archive.WriteHeader(header); err != nil {
			return fmt.Errorf("send %q: %w", seen, err)
		}
		_, err = s.archive.Write(data)
		return err
	})
}

// receiveFiles reads what sendFiles wrote.
func receiveFiles(r io.Reader, limits Limits) (map[string][]byte, error) {
	files, archive := map[string][]byte{}, tar.NewReader(r)
	for left := limits.Input; ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read files: %w", err)
		}
		if left -= header.Size; left < 0 {
			return nil, place{file: header.Name}.limit("the service has more than %d MiB", limits.Input>>20)
		}
		data := make([]byte, header.Size)
		if _, err := io.ReadFull(archive, data); err != nil {
			return nil, fmt.Errorf("read %q: %w", header.Name, err)
		}
		files[path.Clean(header.Name)] = data
	}
}

// receive reads answers until one is Done. It returns the last place that was named, also beside an error.
func receive(r io.Reader) (last *answer, at string, err error) {
	lines := json.NewDecoder(r)
	for {
		var a answer
		if err := lines.Decode(&a); err != nil {
			return nil, at, err
		}
		if a.Done {
			return &a, at, nil
		}
		at = a.At
	}
}
