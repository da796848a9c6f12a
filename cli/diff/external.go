package diff

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/agent/compare"
	"github.com/pluralsh/plural/cli/ui"
)

// maxFileName bounds a file's name, in bytes; file systems allow 255.
const maxFileName = 200

// external runs the program that KUBECTL_EXTERNAL_DIFF names on two folders, as kubectl diff does: a file for each object that
// differs, with values masked. Objects that change alike are there once.
func (o options) external(ctx context.Context, program string, r *report) error {
	dir, err := os.MkdirTemp("", "plural-diff-")
	if err != nil {
		return fmt.Errorf("compare with %s: %w", program, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left of it holds no secret
	folders := [2]string{filepath.Join(dir, "before"), filepath.Join(dir, "after")}
	for _, folder := range folders {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return fmt.Errorf("compare with %s: %w", program, err)
		}
	}
	used := map[string]int{}
	for i := range r.Items {
		if err := writeExample(folders, used, &r.Items[i]); err != nil {
			return fmt.Errorf("compare with %s: %w", program, err)
		}
	}
	words := strings.Fields(program)
	if len(words) == 0 {
		return &ui.Err{Msg: "KUBECTL_EXTERNAL_DIFF names no program", Fix: "unset KUBECTL_EXTERNAL_DIFF", Doc: ui.DocProgram}
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], folders[:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.f.IO.In, o.f.IO.Out, o.f.IO.ErrOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1 says that there are differences
		return &ui.Err{
			Msg: "KUBECTL_EXTERNAL_DIFF: " + program, Cause: err.Error(), Fix: "unset KUBECTL_EXTERNAL_DIFF", Doc: ui.DocProgram, Err: err,
		}
	}
	return o.end(r)
}

// writeExample writes a group's example under its service's and its own name.
func writeExample(folders [2]string, used map[string]int, g *compare.Group) error {
	c := g.Example
	name := strings.Join([]string{g.Objects[0].Service, c.Kind, c.Group, c.Namespace, c.Name}, ".")
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:`, r) {
			return '_'
		}
		return r
	}, name)
	name = name[:min(len(name), maxFileName)]
	if used[name]++; used[name] > 1 {
		name += fmt.Sprintf(".%d", used[name])
	}
	before, after := c.Masked()
	for i, side := range []map[string]any{before, after} {
		if side == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(folders[i], name), []byte(long(side)), 0o600); err != nil {
			return err
		}
	}
	return nil
}
