package render

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pluralsh/plural/internal/sandbox"
)

// A plugin's conversation is that of a KRM function:
//
//	parent -> child: opening, with the plugin's path; the child becomes the plugin
//	parent -> plugin: a ResourceList without items, whose functionConfig is the input; then the end of stdin
//	plugin -> parent: a ResourceList; then the end of stdout, and of the plugin
//
// The parent does not look at what was printed: another child reads it (printed.go).

// cannotBecome is the exit code of a child that could not become the plugin, and says on stderr why.
const cannotBecome = 125

// becomePlugin is the child's part: it returns only when there will be no plugin.
func becomePlugin(first opening) int {
	fmt.Fprintln(os.Stderr, sandbox.Exec(first.Plugin, first.Limits.walls()))
	return cannotBecome
}

// PluginDigest is the SHA-256 of a plugin's file, in hex: what a render by that plugin depends on beside its input. It is empty
// for the renderers that are built in.
func (r *Renderer) PluginDigest(name string) (string, error) {
	if isBuiltIn(name) {
		return "", nil
	}
	program, err := r.plugin(name)
	if err != nil {
		return "", err
	}
	file, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("read plugin: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("read plugin: %w", err)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if len(r.PluginDigests) > 0 && r.PluginDigests[name] != digest {
		refused := &Error{
			Reason: Refused, Message: fmt.Sprintf("the plugin %q is not the program that was agreed to: its digest is sha256:%s", name, digest),
			Fix: "put the agreed one in its place, or start the agent with this digest (--plugin-digest, pluginDigests of the package agent)",
		}
		return "", refused.cleaned()
	}
	return digest, nil
}

// plugin finds the executable of that name.
func (r *Renderer) plugin(name string) (string, error) {
	unknown := &Error{Reason: Invalid, Message: fmt.Sprintf("unknown renderer %q", name), Fix: "raw, kustomize or helm, or the name of a program in the agent's --plugins folder"}
	if r.Plugins == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") || name == "" {
		return "", unknown.cleaned()
	}
	program, err := filepath.Abs(filepath.Join(r.Plugins, name))
	if err != nil {
		return "", fmt.Errorf("find plugin: %w", err)
	}
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		unknown.Fix = "raw, kustomize, helm or a plugin that is installed where this renders"
		return "", unknown.cleaned()
	case err != nil:
		return "", fmt.Errorf("find plugin: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", &Error{Reason: Invalid, Message: fmt.Sprintf("the plugin %q is no executable file", name)}
	}
	return program, nil
}

func (r *Renderer) renderByPlugin(ctx context.Context, in Input, limits Limits) (*Output, error) {
	program, err := r.plugin(in.Renderer)
	if err == nil && len(r.PluginDigests) > 0 {
		_, err = r.PluginDigest(in.Renderer) // whoever writes to the folder may have done so since it was asked for
	}
	if err != nil {
		return nil, err
	}
	printed, err := r.run(ctx, program, in, limits)
	if err != nil {
		return nil, err
	}
	// What was printed is one document.
	limits.Document, limits.Input = len(printed), max(limits.Input, int64(len(printed)))
	ask := request{Renderer: printedByPlugin, Path: ".", Namespace: in.Namespace, Service: in.Service}
	send := func(w io.Writer, _ bool) error { return sendPrinted(w, limits, ask, printed) }
	answer, err := r.converse(ctx, question{limits: limits, send: send})
	if err != nil {
		return nil, err
	}
	return answer.output()
}

// run runs a plugin and returns what it printed. The plugin is gone when it returns.
func (r *Renderer) run(ctx context.Context, program string, in Input, limits Limits) ([]byte, error) {
	timed, cancel := context.WithTimeoutCause(ctx, limits.Wall, errWall)
	defer cancel()
	child, err := r.start(limits)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(timed, child.stop)
	child.say(func(w io.WriteCloser) error { return sendList(w, limits, program, in) })
	printed, heard := io.ReadAll(child.stdout)
	exit, unsent := child.end(heard == nil && child.stdout.N > 0)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unsent != nil:
		return nil, unsent
	case child.stdout.N <= 0:
		return nil, place{}.limit("the plugin prints more than %d MiB", limits.Output>>20)
	case exit == nil && heard == nil:
		return printed, nil
	}
	return nil, child.pluginFailure(in.Renderer, exit, context.Cause(timed))
}

// pluginFailure says what a plugin that failed said itself.
func (c *conversation) pluginFailure(name string, exit, stopped error) *Error {
	words := strings.TrimSpace(c.LastWords())
	var ended *exec.ExitError
	switch e := c.verdict(place{}, exit, stopped); {
	case e.Reason != Crash:
		return e
	case errors.As(exit, &ended) && ended.ExitCode() == cannotBecome:
		return (&Error{Reason: Refused, Message: fmt.Sprintf("the plugin %q cannot run here: %s", name, words)}).cleaned()
	case words == "":
		return &Error{Reason: Invalid, Message: fmt.Sprintf("the plugin %q fails: %v", name, exit)}
	}
	return (&Error{Reason: Invalid, Message: fmt.Sprintf("the plugin %q fails: %v: %s", name, exit, words)}).cleaned()
}

// config is the functionConfig's spec, without the files.
type config struct {
	Service     string                     `json:"service"`
	Namespace   string                     `json:"namespace"`
	Path        string                     `json:"path"`
	Parameters  map[string]string          `json:"parameters"`
	Secrets     map[string]map[string]text `json:"secrets"`
	KubeVersion string                     `json:"kubeVersion"`
	APIVersions []string                   `json:"apiVersions"`
}

// text is a string where it is one, and {"base64": ...} where its bytes are no UTF-8.
type text string

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

func configOf(in Input) config {
	c := config{
		Service: in.Service, Namespace: in.Namespace, Path: in.Path, Parameters: in.Parameters, Secrets: map[string]map[string]text{},
		KubeVersion: in.KubeVersion, APIVersions: in.APIVersions,
	}
	for name, values := range in.Secrets {
		c.Secrets[name] = map[string]text{}
		for key, value := range values {
			c.Secrets[name][key] = text(value)
		}
	}
	return c
}

// sendList writes the opening and the ResourceList, file by file, and ends the plugin's stdin.
func sendList(w io.WriteCloser, limits Limits, program string, in Input) error {
	out := bufio.NewWriterSize(w, 64<<10)
	if err := json.NewEncoder(out).Encode(opening{Limits: limits, Plugin: program}); err != nil {
		return fmt.Errorf("write opening: %w", err)
	}
	spec, err := json.Marshal(configOf(in))
	if err != nil {
		return fmt.Errorf("encode input: %w", err)
	}
	name, err := json.Marshal(in.Service)
	if err != nil {
		return fmt.Errorf("encode input: %w", err)
	}
	_, _ = fmt.Fprintf(out, `{"apiVersion":"config.kubernetes.io/v1","kind":"ResourceList","items":[],"functionConfig":`+
		`{"apiVersion":"plural.sh/v1alpha1","kind":"Render","metadata":{"name":%s},"spec":%s,"files":{`, name, spec[:len(spec)-1])
	files := listed{out: out, path: in.Path}
	if err := in.walk(limits, files.put); err != nil {
		return err
	}
	if !files.found {
		return place{file: in.Path}.invalid("there is no such folder")
	}
	_, _ = out.WriteString("}}}}\n") // bufio keeps the error for Flush
	return errors.Join(out.Flush(), w.Close())
}

// listed writes files as the members of a JSON object.
type listed struct {
	out   *bufio.Writer
	path  string
	count int
	found bool // there is a file below the path
}

func (l *listed) put(name string, data []byte) error {
	if l.path == "." || strings.HasPrefix(name, l.path+"/") {
		l.found = true
		if err := notPointer(name, data); err != nil {
			return err
		}
	}
	if l.count++; l.count > 1 {
		_ = l.out.WriteByte(',')
	}
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	value, err := json.Marshal(text(data))
	if err != nil {
		return err
	}
	_, _ = l.out.Write(key)
	_ = l.out.WriteByte(':')
	_, err = l.out.Write(value)
	return err
}

// sendPrinted sends a child what a plugin printed, as its only file.
func sendPrinted(w io.Writer, limits Limits, ask request, printed []byte) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	if err := sendRequest(buffered, true, limits, ask); err != nil {
		return err
	}
	archive := tar.NewWriter(buffered)
	if err := putFile(archive, printedFile, printed); err != nil {
		return err
	}
	return errors.Join(archive.Close(), buffered.Flush())
}
