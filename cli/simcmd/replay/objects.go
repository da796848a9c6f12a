package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/internal/gitexec"
)

// objects are a repository's, as the git program finds them: in packs, in other repositories that it borrows from, in a bare
// repository that has nothing else. It implements snapshot.Store.
type objects struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	// said is what git has to complain of, and may be read once it has ended.
	said gitexec.Complaint
	mu   sync.Mutex // guards in and out
	out  *bufio.Reader
}

func openObjects(ctx context.Context, dir string) (*objects, error) {
	o := &objects{cmd: gitexec.Command(ctx, dir, "cat-file", "--batch-command", "--buffer")}
	o.cmd.Env = append(o.cmd.Env, bareAt(dir)...)
	o.cmd.Stderr = &o.said
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.out = bufio.NewReaderSize(out, 64<<10)
	if err := o.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start git: %w", err)
	}
	return o, nil
}

// bareAt is the environment that has git take a folder for a bare repository, where it is one and not merely the folder somebody
// happens to be in.
func bareAt(dir string) []string {
	_, err := os.Stat(filepath.Join(dir, "HEAD"))
	whole, failed := filepath.Abs(dir)
	if dir == "." || err != nil || failed != nil {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
		return nil // a clone, whose files may have such names
	}
	return []string{"GIT_DIR=" + whole}
}

func (o *objects) close() {
	o.in.Close()
	_ = o.cmd.Wait() // it was only read from
}

// Has implements snapshot.Store.
func (o *objects) Has(id plumbing.Hash) bool {
	_, err := o.Size(id)
	return err == nil
}

// Size implements snapshot.Store.
func (o *objects) Size(id plumbing.Hash) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, size, err := o.ask("info", id)
	return size, err
}

// Read implements snapshot.Store.
func (o *objects) Read(id plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kind, size, err := o.ask("contents", id)
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	data := make([]byte, size+1) // with the line's end
	if _, err := io.ReadFull(o.out, data); err != nil {
		return plumbing.InvalidObject, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return kind, data[:size], nil
}

// gone says why git ended, if it said so itself.
func (o *objects) gone(id plumbing.Hash, err error) error {
	o.close()
	if said, _, _ := strings.Cut(strings.TrimSpace(o.said.String()), "\n"); said != "" {
		return fmt.Errorf("ask git for %s: %s (git 2.36 or newer is needed)", id, said)
	}
	return fmt.Errorf("ask git for %s: %w", id, err)
}

// ask is called with mu held.
func (o *objects) ask(what string, id plumbing.Hash) (plumbing.ObjectType, int64, error) {
	if _, err := fmt.Fprintf(o.in, "%s %s\nflush\n", what, id); err != nil {
		return plumbing.InvalidObject, 0, o.gone(id, err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		return plumbing.InvalidObject, 0, o.gone(id, err)
	}
	words := strings.Fields(line)
	if len(words) != 3 {
		return plumbing.InvalidObject, 0, fmt.Errorf("%w: %s", plumbing.ErrObjectNotFound, strings.TrimSpace(line))
	}
	kind, err := plumbing.ParseObjectType(words[1])
	if err != nil {
		return kind, 0, err
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	return kind, size, err
}
