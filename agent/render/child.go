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
	"runtime/metrics"
	"sync"
	"time"
)

// ChildMain is the other end of Renderer: it renders what stdin asks for and returns the process's exit code. It is
// the whole main of that process, since it takes away for good what a process usually can do, and ends the process
// itself when the parent dies or memory runs out.
func ChildMain(stdin io.Reader, stdout io.Writer) int {
	// Whatever a library prints must not land between two answers.
	os.Stdout = os.Stderr
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))

	in, out := bufio.NewReaderSize(stdin, 64<<10), &reporter{out: json.NewEncoder(stdout)}
	limits, err := readLine[Limits](in)
	if err != nil {
		return out.fail(fmt.Errorf("read limits: %w", err))
	}
	if err := confine(limits); err != nil {
		return out.fail(err)
	}
	go watchMemory(memoryHeld()+limits.Memory, limits, out)
	request, err := readLine[request](in)
	if err != nil {
		return out.fail(fmt.Errorf("read request: %w", err))
	}
	files, err := receiveFiles(in, limits)
	if err != nil {
		return out.fail(err)
	}
	go exitWithParent(in)

	job := &job{request: request, limits: limits, tree: newTree(files), reporter: out}
	manifests, err := job.render()
	if err != nil {
		return out.fail(err)
	}
	return out.done(manifests)
}

// job is one render, in the child.
type job struct {
	request
	*reporter
	limits Limits
	tree   *tree
}

func (j *job) render() ([]manifest, error) {
	render, ok := map[string]func(*job) ([]manifest, error){
		Raw: renderRaw, Kustomize: renderKustomize, HelmChart: renderHelm,
	}[j.Renderer]
	if !ok {
		return nil, &Error{Reason: Invalid, Message: fmt.Sprintf("unknown renderer %q", j.Renderer), Fix: "raw, kustomize or helm"}
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

func (r *reporter) warn(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *reporter) done(manifests []manifest) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := answer{Done: true, Warnings: r.warnings}
	for _, m := range manifests {
		last.Objects = append(last.Objects, m.json)
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

// exitWithParent ends the process when nobody holds the other end of stdin any more. It has no end of its own: it
// lives exactly as long as the process.
func exitWithParent(stdin io.Reader) {
	_, _ = io.Copy(io.Discard, stdin)
	os.Exit(1)
}

// watchMemory ends the process with a proper answer when it holds more than most. It sees growth between two looks only,
// which is why the kernel watches as well where it can.
func watchMemory(most int64, limits Limits, out *reporter) {
	for ; memoryHeld() <= most; time.Sleep(10 * time.Millisecond) {
	}
	out.mu.Lock()
	at := place{file: out.at}
	out.mu.Unlock()
	os.Exit(out.fail(at.tooMuchMemory(limits)))
}

// memoryHeld is what the Go runtime has from the system, in bytes.
func memoryHeld() int64 {
	use := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(use)
	return int64(use[0].Value.Uint64() - use[1].Value.Uint64())
}
