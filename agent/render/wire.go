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
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The conversation, one line of JSON each unless said otherwise:
//
//	parent -> child: opening, so that the walls stand before anything of the input is parsed
//	parent -> child: request
//	parent -> child: the files as a tar archive; then only replies, because the pipe's end tells the child its parent died
//	child -> parent: any number of answers that only say At, or ask by Lookup; each of these gets one reply
//	child -> parent: one answer that is Done; when it also says Again, another request and its files may follow
//
// A child whose opening names a plugin becomes that plugin, and the rest of the conversation is the plugin's (plugin.go).

// opening is the first line. The child reads no byte beyond it before its walls stand.
type opening struct {
	Limits Limits `json:"limits"`
	// Plugin is the path of the executable that the child becomes.
	Plugin string `json:"plugin,omitempty"`
}

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
	// ThirdParty is the input's; Mounts say where files begin that may be of others.
	ThirdParty bool        `json:"thirdParty,omitempty"`
	Mounts     []mountedAt `json:"mounts,omitempty"`
	// Lookups says that the parent answers them.
	Lookups bool `json:"lookups,omitempty"`
	// Again says that the child may be asked again: nothing that it is sent now has to be kept from what it renders then.
	Again bool `json:"again,omitempty"`
}

// mountedAt is a Mount without its files.
type mountedAt struct {
	At         string `json:"at"`
	ThirdParty bool   `json:"thirdParty,omitempty"`
}

// thirdParty says whether a file is no part of the installation repo.
func (r *request) thirdParty(name string) bool {
	third := r.ThirdParty
	for _, m := range r.Mounts {
		if strings.HasPrefix(name, m.At+"/") {
			third = m.ThirdParty
		}
	}
	return third
}

func newRequest(in Input) (request, error) {
	if !fs.ValidPath(in.Path) {
		return request{}, &Error{
			Reason: Invalid, Message: fmt.Sprintf("path %q leaves the repository", in.Path),
			Fix: "name a folder relative to the repository's root",
		}
	}
	r := request{
		Renderer: in.Renderer, Path: in.Path, Namespace: in.Namespace, Service: in.Service,
		Parameters: in.Parameters, Secrets: secrets(in.Secrets), KubeVersion: in.KubeVersion, APIVersions: in.APIVersions,
		ThirdParty: in.ThirdParty, Lookups: in.Lookup != nil,
	}
	for _, m := range in.Mounts {
		if err := m.check(in.Files); err != nil {
			return request{}, err
		}
		r.Mounts = append(r.Mounts, mountedAt{m.At, m.ThirdParty})
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
	At     string  `json:"at,omitempty"`
	Lookup *lookup `json:"lookup,omitempty"`
	Done   bool    `json:"done,omitempty"`
	// Again says that the child is as a new one would be, and waits for another request.
	Again bool `json:"again,omitempty"`

	Objects  []json.RawMessage `json:"objects,omitempty"`
	Origins  []Origin          `json:"origins,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Traits   traits            `json:"traits,omitzero"`
	Record   json.RawMessage   `json:"record,omitempty"`
	Error    *Error            `json:"error,omitempty"`
}

// traits are what a render turned out to depend on, beside its input.
type traits struct {
	Capabilities bool `json:"capabilities,omitempty"`
	Lookup       bool `json:"lookup,omitempty"`
}

func (a *answer) output() (*Output, error) {
	if a.Error != nil {
		return nil, a.Error.cleaned()
	}
	out := &Output{
		Objects: make([]*unstructured.Unstructured, len(a.Objects)), Origins: a.Origins, Warnings: a.Warnings,
		Capabilities: a.Traits.Capabilities, Lookup: a.Traits.Lookup,
	}
	if len(a.Origins) != len(a.Objects) {
		return nil, &Error{Reason: Crash, Message: "the render process does not say where each object comes from"}
	}
	for i, raw := range a.Objects {
		var err error
		if out.Objects[i], err = object(raw); err != nil {
			return nil, (&Error{Reason: Invalid, Message: fmt.Sprintf("object %d: %v", i+1, err)}).cleaned()
		}
	}
	if len(a.Record) > 0 {
		var err error
		if out.Record, err = object(a.Record); err != nil {
			return nil, (&Error{Reason: Crash, Message: fmt.Sprintf("release record: %v", err)}).cleaned()
		}
	}
	return out, nil
}

func object(raw []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, o.UnmarshalJSON(raw)
}

// send writes the parent's half of the conversation. First says that its walls do not stand yet.
func send(w io.Writer, first bool, limits Limits, ask request, in Input) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	if err := sendRequest(buffered, first, limits, ask); err != nil {
		return err
	}
	archive := tar.NewWriter(buffered)
	if err := in.walk(limits, func(name string, data []byte) error { return putFile(archive, name, data) }); err != nil {
		return err
	}
	return errors.Join(archive.Close(), buffered.Flush())
}

func sendRequest(w io.Writer, first bool, limits Limits, ask request) error {
	lines := json.NewEncoder(w)
	if first {
		if err := lines.Encode(opening{Limits: limits}); err != nil {
			return fmt.Errorf("write opening: %w", err)
		}
	}
	if err := lines.Encode(ask); err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	return nil
}

func putFile(archive *tar.Writer, name string, data []byte) error {
	header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("send %q: %w", name, err)
	}
	_, err := archive.Write(data)
	return err
}

// walk puts every file of the input, up to the limits, under the name by which it is seen.
func (in *Input) walk(limits Limits, put func(name string, data []byte) error) error {
	w := walker{limits: limits, put: put}
	for _, m := range append([]Mount{{At: ".", Path: ".", Files: in.Files}}, in.Mounts...) {
		if err := w.walk(m); err != nil {
			return err
		}
	}
	return nil
}

// walker counts what it puts.
type walker struct {
	limits Limits
	put    func(name string, data []byte) error
	count  int
	size   int64
}

func (w *walker) walk(m Mount) error {
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
		w.count, w.size = w.count+1, w.size+int64(len(data))
		if w.count > w.limits.Files || w.size > w.limits.Input {
			return place{file: seen}.limit("the service has more than %d files or %d MiB", w.limits.Files, w.limits.Input>>20)
		}
		return w.put(seen, data)
	})
}

// receiveFiles reads what putFile wrote.
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

// receive reads answers until one is Done, and has look answer those that ask. It returns the last place that was named, also
// beside an error, which may be look's.
func receive(lines *json.Decoder, look func(*lookup) error) (last *answer, at string, err error) {
	for {
		var a answer
		if err := lines.Decode(&a); err != nil {
			return nil, at, err
		}
		switch {
		case a.Done:
			return &a, at, nil
		case a.Lookup != nil:
			if err := look(a.Lookup); err != nil {
				return nil, at, err
			}
		default:
			at = a.At
		}
	}
}
