package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
)

// TestNothingIsColoredForWhoWantsNoColor tries every command's help, and every one that shows things, on a terminal with NO_COLOR.
func TestNothingIsColoredForWhoWantsNoColor(t *testing.T) {
	desk := newDesk(t)
	var lines [][]string
	_, all := commands()
	for _, cmd := range all {
		lines = append(lines, append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	}
	for command, how := range shown {
		lines = append(lines, strings.Fields(command + " " + how.args)[1:])
	}
	for _, topic := range topics() {
		lines = append(lines, []string{"help", topic.name})
	}
	for _, args := range lines {
		desk.terminal = true
		got := desk.plural(t, args...)
		if got.code != ui.ExitOK || strings.Contains(got.out+got.errOut, "\x1b") {
			t.Errorf("%v: %d, %q, %q", args, got.code, got.out, got.errOut)
		}
	}
}

// asking are commands that would ask somebody, with the flag or the way that each names where there is nobody.
var asking = map[string]string{
	"-C / crypto init":                    "not an installation repo",
	"cluster delete edge-2":               "--confirm",
	"service delete web":                  "--confirm",
	"source delete podinfo":               "--confirm",
	"service edit web":                    "EDITOR",
	"package add hub":                     "--set",
	"undo":                                "--yes",
	"secret set secrets/db.yaml user":     "stdin",
	"auth login --hub http://127.0.0.1:1": "--with-token",
	"tui":                                 "plural status --watch",
}

// TestNobodyIsWaitedForWhoIsNotThere runs the program with nothing on stdin.
func TestNobodyIsWaitedForWhoIsNotThere(t *testing.T) {
	office := newOffice(t)
	before := office.state(t)
	for args, flag := range asking {
		t.Run(args, func(t *testing.T) {
			var out, errOut bytes.Buffer
			cmd := office.program(t, strings.Fields(args)...)
			cmd.Stdout, cmd.Stderr = &out, &errOut // and stdin is /dev/null
			began := time.Now()
			err := cmd.Run()
			took := time.Since(began)
			var ended *exec.ExitError
			if !errors.As(err, &ended) || ended.ExitCode() != 1 || out.Len() > 0 || !strings.Contains(errOut.String(), flag) {
				t.Errorf("%v, %q\n%s", err, out.String(), errOut.String())
			}
			if strings.Contains(errOut.String(), "\x1b") || took > 20*time.Second {
				t.Errorf("after %s: %q", took, errOut.String())
			}
			if after := office.state(t); after != before {
				t.Errorf("it changed something:\n%s", after)
			}
		})
	}
}

// program is a run of the real program at the desk.
func (o *office) program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("plural") // testscript puts it there
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.WaitDelay = o.repo, time.Second
	cmd.Env = append(os.Environ(), "PLURAL_CONFIG_DIR="+o.config, "PLURAL_CACHE_DIR="+o.config, "NO_COLOR=1", "TERM=dumb", "PLURAL_HUB=", "EDITOR=", "VISUAL=")
	return cmd
}

// TestAnInterruptLeavesTheChangeWholeOrUndone signals the program at moments from its start to its end.
func TestAnInterruptLeavesTheChangeWholeOrUndone(t *testing.T) {
	office := newOffice(t)
	interrupted, made := 0, 0
	const moments = 16
	for i := range moments {
		before := office.git(t, "rev-parse", "HEAD")
		value := fmt.Sprintf("replicas=%d", 10+i)
		cmd := office.program(t, "service", "set", "web", value, "--wait=false")
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		alarm := time.AfterFunc(time.Duration(i*12)*time.Millisecond, func() { _ = cmd.Process.Signal(syscall.SIGINT) })
		err := cmd.Wait()
		alarm.Stop()
		var ended *exec.ExitError
		switch {
		case err == nil:
			made++
		case errors.As(err, &ended) && (ended.ExitCode() == 130 || !ended.Exited()): // not yet listening to signals
			interrupted++
		default:
			t.Errorf("after %d ms: %v\n%s", i*12, err, said.String())
		}
		after := office.git(t, "rev-parse", "HEAD")
		if status := office.git(t, "status", "--porcelain", "--untracked-files=all"); status != "" {
			t.Errorf("after %d ms the clone has changes: %s", i*12, status)
		}
		if moved := strings.Contains(office.git(t, "show", "HEAD:services/web.yaml"), fmt.Sprintf(`"%d"`, 10+i)); moved != (before != after) {
			t.Errorf("after %d ms: the file says %v, HEAD %v", i*12, moved, before != after)
		}
		if err == nil && after == before {
			t.Errorf("after %d ms: it says that it succeeded, and there is no commit", i*12)
		}
		office.git(t, "fsck", "--strict", "--no-dangling")
		office.git(t, "push", "-q", "origin", "HEAD")
	}
	t.Logf("%d of %d runs were interrupted, %d came to their end", interrupted, moments, made)
}

// TestCommandsThatNeedNoNetworkAskNobody watches the calls to the system.
func TestCommandsThatNeedNoNetworkAskNobody(t *testing.T) {
	strace := needs.Program(t, "strace", "the package strace")
	office := newOffice(t)
	for _, args := range []string{
		"--help", "version", "completion bash", "__complete cluster ", "help filters", "validate", "package list", "crypto status", "config list",
		"service set web replicas=7 --dry-run", "undo --dry-run", "render web --cluster edge-1", "local list",
	} {
		log := filepath.Join(t.TempDir(), "calls")
		program := office.program(t)
		words := strings.Fields(args)
		if strings.HasSuffix(args, " ") {
			words = append(words, "")
		}
		cmd := exec.CommandContext(t.Context(), strace, append([]string{"-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", log, program.Path}, words...)...)
		cmd.Dir, cmd.Env = program.Dir, program.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		calls, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(calls), "AF_INET") {
			t.Errorf("%s asks the network:\n%s", args, calls)
		}
	}
}

// TestTheExitCodesAreThoseThatAreDescribed has a command for each.
func TestTheExitCodesAreThoseThatAreDescribed(t *testing.T) {
	tried := map[ui.Code]bool{}
	for code, args := range map[ui.Code]string{
		ui.ExitOK: "status", ui.ExitFailed: "stauts", ui.ExitDiffers: "status --exit-code", ui.ExitPending: "status --watch --timeout 50ms",
	} {
		if got := plural(t, t.Context(), troubled(), false, strings.Fields(args)...); got.code != code {
			t.Errorf("%s ends with %d, want %d: %s", args, got.code, code, got.errOut)
		}
		tried[code] = true
	}
	if got := plural(t, t.Context(), &fakeHub{refuse: 401}, false, "status"); got.code != ui.ExitLogin {
		t.Errorf("got %d", got.code)
	}
	tried[ui.ExitLogin] = true
	tried[ui.ExitInterrupted] = true // TestSignalEndsTheProgramWith130
	for line := range strings.Lines(exitCodesTopic) {
		var code ui.Code
		if n, _ := fmt.Sscanf(line, "  %d ", &code); n == 1 && !tried[code] {
			t.Errorf("nothing is seen to end with %d", code)
		}
	}
}
