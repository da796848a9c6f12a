// Command pictures draws docs/pictures from the real program: it brings a fleet up on this machine, sits at a terminal as a person
// would, and writes down what stands on the screen as SVG.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	programs := flag.String("programs", "bin", "the `folder` of plural, plural-agent and localkube")
	out := flag.String("out", "docs/pictures", "the `folder` to write pictures to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *programs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1) //nolint:gocritic // the fleet was taken down in run
	}
}

// studio is where pictures are made: a person's home on this machine, with a fleet in it.
type studio struct{ home, out string }

func run(ctx context.Context, programs, out string) (err error) {
	programs, err = filepath.Abs(programs)
	if err != nil {
		return fmt.Errorf("find the programs: %w", err)
	}
	// The name is short, because it is in the pictures.
	home := filepath.Join(os.TempDir(), "ada")
	if err := os.Mkdir(home, 0o700); err != nil {
		return fmt.Errorf("make a home for the pictures' fleet, which a run that was killed may have left (plural down %s/fleet): %w", home, err)
	}
	s := &studio{home: home, out: out}
	if err := settle(home, programs); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, s.do("plural", "down", s.fleet()), os.RemoveAll(home))
	}()
	git := []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n")
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), git, 0o600); err != nil {
		return fmt.Errorf("write git's settings: %w", err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the pictures: %w", err)
	}
	for _, picture := range []func(context.Context) error{s.tour, s.console, s.page} {
		if err := picture(ctx); err != nil {
			return err
		}
	}
	return nil
}

// settle makes this process' environment that of a person who lives in home, and has nothing else.
func settle(home, programs string) error {
	path := programs + string(os.PathListSeparator) + os.Getenv("PATH")
	os.Clearenv()
	for name, value := range map[string]string{
		"HOME": home, "PATH": path, "TERM": "xterm-256color", "LANG": "C.UTF-8",
		"PLURAL_LOCALKUBE": filepath.Join(programs, "localkube"), "PLURAL_NO_UPDATE_NOTIFIER": "1",
	} {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set the environment: %w", err)
		}
	}
	return nil
}

func (s *studio) fleet() string { return filepath.Join(s.home, "fleet") }

// do runs a command that is in no picture.
func (s *studio) do(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.home
	if _, err := os.Stat(s.fleet()); err == nil {
		cmd.Dir = s.fleet()
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w:\n%s", name, args, err, said)
	}
	return nil
}

func (s *studio) write(name string, picture []byte) error {
	path := filepath.Join(s.out, name+".svg")
	if err := os.WriteFile(path, picture, 0o644); err != nil { //nolint:gosec // a picture is for everybody
		return fmt.Errorf("write picture: %w", err)
	}
	fmt.Printf("%s  %d kB\n", path, len(picture)/1000)
	return nil
}
