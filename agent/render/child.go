package render

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/openapi/kubernetesapi"

	"github.com/pluralsh/plural/internal/sandbox"
)

// ChildMain is the other end of Renderer: it renders what stdin asks for and returns the process's exit code. It is
// the whole main of that process, since it takes away for good what a process usually can do, and ends the process
// itself when the parent dies or memory runs out. When a plugin is asked for, the process becomes that plugin.
func ChildMain(stdin io.Reader, stdout io.Writer) int {
	// Whatever a library prints must not land between two answers.
	os.Stdout = os.Stderr
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))

	out := &reporter{out: json.NewEncoder(stdout)}
	first, err := readOpening(stdin)
	if err != nil {
		return out.fail(fmt.Errorf("read opening: %w", err))
	}
	if first.Plugin != "" {
		failed := becomePlugin(first)
		runtime.KeepAlive(stdout) // a file that nobody holds is closed, and it is the plugin's to write to
		return failed
	}
	limits := first.Limits
	if err := sandbox.Raise(limits.walls()); err != nil {
		return out.fail(err)
	}
	go out.watchMemory(limits)
	in := bufio.NewReaderSize(stdin, 64<<10)
	for {
		code, again := answerOne(in, out, limits)
		if !again {
			return code
		}
	}
}

// answerOne renders what the parent asks for next, and says whether it may ask again.
func answerOne(in *bufio.Reader, out *reporter, limits Limits) (code int, again bool) {
	out.forget()
	request, err := readLine[request](in)
	if err != nil {
		return out.fail(fmt.Errorf("read request: %w", err)), false
	}
	files, err := receiveFiles(in, limits)
	if err != nil {
		return out.fail(err), false
	}
	asker := &lookupClient{reporter: out, known: map[lookup]map[string]any{}}
	more := make(chan struct{})
	if request.Lookups {
		replies := make(chan reply)
		asker.replies = replies
		go func() {
			hear(in, replies)
			os.Exit(1)
		}()
	} else {
		go func() {
			if _, err := in.Peek(1); err != nil {
				os.Exit(1) // nobody holds the other end of stdin any more
			}
			close(more)
		}()
	}

	job := &job{request: request, limits: limits, tree: newTree(files), lookupClient: asker}
	manifests, err := job.render()
	if err != nil {
		return out.fail(err), false
	}
	again = request.Again && !request.Lookups && openapi.GetSchemaVersion() == builtInSchema && sandbox.MemoryHeld() < limits.Memory/4
	code = out.done(manifests, again)
	if code != 0 || !again {
		return code, false
	}
	<-more
	return 0, true
}

// builtInSchema is the OpenAPI schema of kinds that kustomize goes by unless a kustomization names another: then the process
// keeps that one for good, and must render nothing more.
const builtInSchema = kubernetesapi.DefaultOpenAPI

// readOpening reads the first line byte by byte: what follows it may be for the plugin that this process becomes.
func readOpening(stdin io.Reader) (first opening, err error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxOpening; line = append(line, b[0]) {
		if _, err := io.ReadFull(stdin, b); err != nil {
			return first, err
		}
		if b[0] == '\n' {
			return first, json.Unmarshal(line, &first)
		}
	}
	return first, errors.New("it does not end")
}

// job is one render, in the child.
type job struct {
	request
	*lookupClient
	limits Limits
	tree   *tree
}

func (j *job) render() ([]manifest, error) {
	render, ok := map[string]func(*job) ([]manifest, error){
		Raw: renderRaw, Kustomize: renderKustomize, HelmChart: renderHelm, printedByPlugin: renderPrinted,
	}[j.Renderer]
	if !ok {
		return nil, fmt.Errorf("unknown renderer %q", j.Renderer)
	}
	if !j.tree.isDir(j.Path) {
		return nil, place{file: j.Path}.invalid("there is no such folder")
	}
	manifests, err := render(j)
	if err != nil {
		return nil, err
	}
	return manifests, admit(manifests, j.Namespace, j.limits)
}

// reporter speaks to the parent. Its methods may be called from any goroutine.
type reporter struct {
	mu       sync.Mutex
	out      *json.Encoder
	at       string
	warnings []string
	record   json.RawMessage
	traits   traits
}

// forget makes ready for another render.
func (r *reporter) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.warnings, r.record, r.traits = "", nil, nil, traits{}
}

// working names the file being worked on, in case it is the last thing this process does.
func (r *reporter) working(file string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if file != r.at {
		r.at = file
		_ = r.out.Encode(answer{At: file}) // a parent that is gone needs no report
	}
}

// question asks the parent something; the reply comes on stdin.
func (r *reporter) question(q lookup) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Encode(answer{Lookup: &q})
}

func (r *reporter) warn(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reporter) done(manifests []manifest, again bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := answer{Done: true, Again: again, Warnings: r.warnings, Traits: r.traits, Record: r.record}
	for _, m := range manifests {
		last.Objects = append(last.Objects, m.json)
		last.Origins = append(last.Origins, m.origin)
	}
	return code(r.out.Encode(last))
}

func (r *reporter) fail(err error) int {
	var known *Error
	if !errors.As(err, &known) {
		known = &Error{Reason: Invalid, Message: err.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return code(r.out.Encode(answer{Done: true, Error: known.cleaned()}))
}

// watchMemory ends the process with a proper answer when it takes more than it may.
func (r *reporter) watchMemory(limits Limits) {
	sandbox.WatchMemory(sandbox.MemoryHeld() + limits.Memory)
	r.mu.Lock()
	at := place{file: r.at}
	r.mu.Unlock()
	os.Exit(r.fail(at.tooMuchMemory(limits)))
}

func code(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func readLine[T any](r *bufio.Reader) (value T, err error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return value, err
	}
	return value, json.Unmarshal(line, &value)
}
