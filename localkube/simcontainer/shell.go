package simcontainer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	utilexec "k8s.io/utils/exec"
)

// Codes with which shells end for reasons of their own.
const (
	codeUsage       = 2
	codeNotFound    = 127
	codeInterrupted = 130
	codeKilled      = 137
)

const (
	longestLine  = 64 << 10  // of what sh reads
	longestSleep = time.Hour // as nobody tells a program whose client has gone
	zeroDevice   = "/dev/zero"
)

// Exec plays a command. An end with another code than 0 is a utilexec.ExitError; a program that is not known cannot
// be started, which is a plain error. Words that are understood: cat, command -v, echo, env, exec, exit, false, head, ls, sh,
// size, sleep, tail, tar, test, true. A program that sleeps when ctx ends is killed.
func (c Container) Exec(ctx context.Context, command []string, streams Streams) error {
	if len(command) == 0 {
		return errors.New("exec: no command")
	}
	session, end := newSession(ctx, c, streams)
	defer end()
	program, known := programs()[path.Base(command[0])]
	if !known {
		return fmt.Errorf("exec: %q: executable file not found in $PATH", command[0])
	}
	code := program(ctx, session, command[1:])
	if code == 0 {
		return nil
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
}

// program plays one word with its arguments and returns its code.
type program func(ctx context.Context, s *session, args []string) int

func programs() map[string]program {
	return map[string]program{
		"cat":     func(_ context.Context, s *session, args []string) int { return s.cat(args) },
		"command": func(_ context.Context, s *session, args []string) int { return s.find(args) },
		"echo":    func(_ context.Context, s *session, args []string) int { return s.print(strings.Join(args, " ") + "\n") },
		"env":     func(_ context.Context, s *session, _ []string) int { return s.printEnv() },
		"exit":    func(_ context.Context, s *session, args []string) int { return s.exit(args) },
		"false":   func(context.Context, *session, []string) int { return 1 },
		"head":    func(_ context.Context, s *session, args []string) int { return s.head(args) },
		"ls":      func(_ context.Context, s *session, args []string) int { return s.list(args) },
		"sh":      func(ctx context.Context, s *session, args []string) int { return s.shell(ctx, args) },
		"size":    func(_ context.Context, s *session, _ []string) int { return s.printSize() },
		"sleep":   func(ctx context.Context, s *session, args []string) int { return s.sleep(ctx, args) },
		"tail":    func(_ context.Context, s *session, args []string) int { return s.tail(args) },
		"tar":     func(_ context.Context, s *session, args []string) int { return s.tar(args) },
		"test":    func(_ context.Context, s *session, args []string) int { return s.test(args) },
		"true":    func(context.Context, *session, []string) int { return 0 },
	}
}

// shell plays `sh -c LINE`, or reads lines until the input ends.
func (s *session) shell(ctx context.Context, args []string) int {
	if len(args) > 0 {
		if len(args) < 2 || args[0] != "-c" {
			return s.fail(codeUsage, "sh: only sh and sh -c LINE are simulated")
		}
		code, _ := s.line(ctx, args[1])
		return code
	}
	lines, code := bufio.NewScanner(s.in), 0
	lines.Buffer(nil, longestLine)
	for s.prompt(); lines.Scan(); s.prompt() {
		var exits bool
		if code, exits = s.line(ctx, lines.Text()); exits {
			return code
		}
	}
	if errors.Is(lines.Err(), errInterrupted) {
		return codeInterrupted
	}
	return code
}

func (s *session) prompt() {
	if s.terminal {
		s.print("$ ")
	}
}

// line plays commands that are joined by ; && || and |, and tells the last code, and whether the shell has been told to exit.
func (s *session) line(ctx context.Context, text string) (code int, exits bool) {
	words, err := splitWords(text)
	if err != nil {
		return s.fail(codeUsage, "sh: %v", err), false
	}
	for len(words) > 0 {
		if ctx.Err() != nil {
			return codeKilled, true
		}
		var pipeline [][]string
		var joint string
		pipeline, joint, words = nextPipeline(words)
		if code, exits = s.pipeline(ctx, pipeline); exits {
			return code, true
		}
		for joint == "&&" && code != 0 || joint == "||" && code == 0 {
			if len(words) == 0 {
				return code, false
			}
			_, joint, words = nextPipeline(words)
		}
	}
	return code, false
}

// nextPipeline takes the commands up to the next joint off words.
func nextPipeline(words []word) (commands [][]string, joint string, rest []word) {
	command := []string{}
	for i, w := range words {
		switch {
		case !w.joint:
			command = append(command, w.text)
		case w.text == "|":
			commands, command = append(commands, command), []string{}
		default:
			return append(commands, command), w.text, words[i+1:]
		}
	}
	return append(commands, command), "", nil
}

// pipeline plays commands, each on the output of the one before, which is held in memory.
func (s *session) pipeline(ctx context.Context, commands [][]string) (code int, exits bool) {
	in := s.in
	for i, command := range commands {
		step := *s
		step.in = in
		var output bytes.Buffer
		if i < len(commands)-1 {
			step.out = &boundedWriter{to: &output}
		}
		if code, exits = step.command(ctx, command); exits {
			return code, len(commands) == 1
		}
		in = &output
	}
	return code, false
}

// command plays one command with its redirections.
func (s *session) command(ctx context.Context, words []string) (code int, exits bool) {
	step, args, file, err := s.redirect(words)
	if err != nil {
		return s.fail(codeUsage, "sh: %v", err), false
	}
	if len(args) == 0 {
		return 0, false
	}
	exits = args[0] == "exit"
	if args[0] == "exec" && len(args) > 1 {
		args, exits = args[1:], true
	}
	play, known := programs()[path.Base(args[0])]
	if !known {
		return s.fail(codeNotFound, "sh: %s: not found", args[0]), exits
	}
	code = play(ctx, step, args[1:])
	if file != nil {
		if err := file.save(s.files); err != nil {
			return s.fail(1, "sh: %v", err), false
		}
	}
	return code, exits
}

// redirected is output that becomes a file.
type redirected struct {
	name string
	bytes.Buffer
}

func (r *redirected) save(files *Files) error {
	return files.put(r.name, file{data: append([]byte{}, r.Bytes()...), mode: 0o644, modified: time.Now()})
}

// redirect understands >&2 and >FILE anywhere in a command.
func (s *session) redirect(words []string) (*session, []string, *redirected, error) {
	step, args := *s, []string(nil)
	var file *redirected
	for i := 0; i < len(words); i++ {
		target, found := strings.CutPrefix(words[i], ">")
		switch {
		case !found:
			args = append(args, words[i])
			continue
		case target == "" && i+1 < len(words):
			i++
			target = words[i]
		}
		switch target {
		case "":
			return nil, nil, nil, errors.New("syntax error: a name is missing after >")
		case "&2":
			step.out = s.err
		default:
			file = &redirected{name: target}
			step.out = &boundedWriter{to: &file.Buffer}
		}
	}
	return &step, args, file, nil
}

// boundedWriter keeps no more than a pod's files may be.
type boundedWriter struct{ to *bytes.Buffer }

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.to.Len()+len(p) > maxFilesBytes {
		return 0, errNoSpace
	}
	return b.to.Write(p)
}

// print writes the text, and returns the code of a program that could or could not.
func (s *session) print(text string) int {
	if _, err := io.WriteString(s.out, text); err != nil {
		return 1
	}
	return 0
}

func (s *session) printEnv() int {
	var text strings.Builder
	fmt.Fprintf(&text, "HOSTNAME=%s\n", s.pod)
	for _, variable := range s.env {
		if variable.ValueFrom == nil {
			fmt.Fprintf(&text, "%s=%s\n", variable.Name, variable.Value)
		}
	}
	return s.print(text.String())
}

// printSize prints rows and columns, as `stty size` does.
func (s *session) printSize() int {
	size := s.size.Load()
	if size == nil {
		return s.fail(1, "size: not known")
	}
	return s.print(fmt.Sprintf("%d %d\n", size.Height, size.Width))
}

func (s *session) exit(args []string) int {
	if len(args) == 0 {
		return 0
	}
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return s.fail(codeUsage, "exit: %s: a number is required", args[0])
	}
	return code & 0xff
}

// find plays `command -v NAME`.
func (s *session) find(args []string) int {
	if len(args) != 2 || args[0] != "-v" {
		return s.fail(codeUsage, "command: only command -v NAME is simulated")
	}
	if _, known := programs()[args[1]]; !known {
		return codeNotFound
	}
	return s.print("/bin/" + args[1] + "\n")
}

func (s *session) sleep(ctx context.Context, args []string) int {
	if len(args) != 1 {
		return s.fail(1, "usage: sleep SECONDS")
	}
	seconds, err := strconv.ParseFloat(args[0], 64)
	if err != nil || !(seconds >= 0) {
		return s.fail(1, "sleep: invalid number %q", args[0])
	}
	timer := time.NewTimer(time.Duration(min(seconds, longestSleep.Seconds()) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return codeKilled
	case <-timer.C:
		return 0
	}
}

func (s *session) cat(args []string) int {
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, name := range args {
		if code := s.copyOut("cat", name, -1); code != 0 {
			return code
		}
	}
	return 0
}

// head plays `head -c BYTES [FILE]`.
func (s *session) head(args []string) int {
	if len(args) < 2 || args[0] != "-c" {
		return s.fail(codeUsage, "usage: head -c BYTES [FILE]")
	}
	count, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil || count < 0 {
		return s.fail(1, "head: invalid number %q", args[1])
	}
	return s.copyOut("head", strings.Join(append(args[2:], "-")[:1], ""), count)
}

// tail plays `tail -c+FIRST` on its input: what comes from that byte on, counted from 1.
func (s *session) tail(args []string) int {
	from, found := strings.CutPrefix(strings.Join(args, ""), "-c+")
	first, err := strconv.ParseInt(from, 10, 64)
	if !found || err != nil {
		return s.fail(codeUsage, "usage: tail -c+FIRST")
	}
	if _, err := io.CopyN(io.Discard, s.in, max(first-1, 0)); err != nil && !errors.Is(err, io.EOF) {
		return s.fail(1, "tail: %v", err)
	}
	return s.copyOut("tail", "-", -1)
}

// copyOut writes a file, or the input for "-", up to limit bytes (below 0: all).
func (s *session) copyOut(who, name string, limit int64) int {
	from, err := s.open(name)
	if err != nil {
		return s.fail(1, "%s: %v", who, err)
	}
	if limit < 0 && name == zeroDevice {
		return s.fail(1, "%s: %s has no end", who, name)
	}
	if limit >= 0 {
		from = io.LimitReader(from, limit)
	}
	_, err = io.Copy(s.out, from)
	switch {
	case errors.Is(err, errInterrupted):
		return codeInterrupted
	case err != nil:
		return s.fail(1, "%s: %v", who, err)
	default:
		return 0
	}
}

func (s *session) open(name string) (io.Reader, error) {
	switch name {
	case "-":
		return s.in, nil
	case zeroDevice:
		return zeros{}, nil
	}
	entry, ok := s.files.get(name)
	if !ok {
		return nil, fmt.Errorf("can't open '%s': No such file or directory", name)
	}
	if entry.folder() {
		return nil, fmt.Errorf("read error: Is a directory: '%s'", name)
	}
	return bytes.NewReader(entry.data), nil
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (s *session) list(args []string) int {
	folder := absolute(strings.Join(args, ""))
	if _, ok := s.files.get(folder); !ok {
		return s.fail(1, "ls: %s: No such file or directory", folder)
	}
	for _, name := range s.files.below(folder) {
		if name == "/" || path.Dir(name) != folder {
			continue
		}
		if code := s.print(path.Base(name) + "\n"); code != 0 {
			return code
		}
	}
	return 0
}

// test plays `test -d`, `test -e` and `test -f`.
func (s *session) test(args []string) int {
	if len(args) != 2 {
		return s.fail(codeUsage, "usage: test -d|-e|-f PATH")
	}
	entry, ok := s.files.get(args[1])
	switch {
	case args[0] == "-e" && ok, args[0] == "-d" && ok && entry.folder(), args[0] == "-f" && ok && !entry.folder():
		return 0
	default:
		return 1
	}
}
