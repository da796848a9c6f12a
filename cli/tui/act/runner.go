package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxSaid bounds what is kept of each of a command's two streams, in bytes. What is cut off is the beginning.
const maxSaid = 256 << 10

// Runner runs commands of this program.
type Runner struct {
	// Program is the path of this program.
	Program string
	// Globals are the flags that go before every command, as they were given to the console: -C DIR, --hub URL.
	Globals []string
	// Env is the commands' environment; nil: that of this process.
	Env []string
	// Own is what commands of this program have in their environment besides.
	Own []string
	// Outside has it run other programs: the first word of a command is one, and Program and Globals count for nothing.
	Outside bool
	// Hears is written what a command says, as it says it; nil: nobody listens.
	Hears io.Writer
	// Grace is how long a command has to end by itself when it is stopped; 0: ten seconds.
	Grace time.Duration
}

func (r *Runner) environment() []string {
	if r.Outside || len(r.Own) == 0 {
		return r.Env
	}
	env := r.Env
	if env == nil {
		env = os.Environ()
	}
	return slices.Concat(env, r.Own)
}

// Result is how a command ended.
type Result struct {
	// Code is its exit code; -1 where it has none.
	Code int
	// Out and Err are what it wrote, up to a bound.
	Out, Err string
}

// Run runs a command that nobody talks to, to its end. When ctx ends it is asked to end, as by a signal.
//
// It is in a session of its own: what is typed into the console does not reach it, and neither it nor a git below it can ask on
// the console's terminal.
func (r *Runner) Run(ctx context.Context, args []string) Result {
	if ctx.Err() != nil {
		return Result{Code: -1, Err: "error: stopped before it began\n"}
	}
	name, args := r.program(args, "--no-input", "--yes", "--color=never")
	child := exec.CommandContext(ctx, name, args...)
	child.Env = r.environment()
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.WaitDelay = cmp.Or(r.Grace, 10*time.Second)
	var out, errOut tail
	child.Stdout, child.Stderr = &out, &errOut
	if r.Hears != nil {
		child.Stdout = io.MultiWriter(&out, r.Hears)
	}
	err := child.Run()
	result := Result{Out: out.String(), Err: errOut.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		result.Code = exit.ExitCode()
	case err != nil:
		result.Code = -1
	}
	if err != nil && said(result.Err, "error: ") == "" {
		result.Err += fmt.Sprintf("error: %v\n", err)
	}
	return result
}

// program is what is to be run for a command, with flags of this program's own.
func (r *Runner) program(args []string, flags ...string) (name string, all []string) {
	if r.Outside {
		return args[0], args[1:]
	}
	return r.Program, slices.Concat(r.Globals, flags, args)
}

// Line is a command as a person would type it.
func (r *Runner) Line(args []string) string {
	var words []string
	if !r.Outside {
		words, args = append(words, "plural"), slices.Concat(r.Globals, args)
	}
	for _, arg := range args {
		words = append(words, quote(arg))
	}
	return strings.Join(words, " ")
}

// quote is an argument as a shell reads it.
func quote(arg string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-./:=@,+%", c)
	}
	if arg != "" && strings.TrimFunc(arg, plain) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// told is what to tell of a result in one line: the error with what mends it, or the last that was said.
func (r *Result) told() string {
	if r.Code == 0 {
		lines := strings.Split(strings.TrimSpace(r.Err), "\n")
		return cmp.Or(strings.TrimSpace(lines[len(lines)-1]), "done")
	}
	text := cmp.Or(said(r.Err, "error: "), fmt.Sprintf("ended with %d", r.Code))
	if fix := said(r.Err, "  fix:"); fix != "" {
		text += "; " + fix
	}
	return text
}

// said is the rest of the first line that begins with prefix: the form of errors is this program's own.
func said(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*maxSaid {
		t.trim()
	}
	return len(p), nil
}

func (t *tail) trim() {
	if over := len(t.kept) - maxSaid; over > 0 {
		t.kept, t.cut = slices.Delete(t.kept, 0, over), true
	}
}

func (t *tail) String() string {
	t.trim()
	if !t.cut {
		return string(t.kept)
	}
	_, whole, _ := strings.Cut(string(t.kept), "\n")
	return "(what came before is not kept)\n" + whole
}
