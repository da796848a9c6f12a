package service

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// agreement is a change of one file of the installation repo: its list of tokens.
type agreement struct {
	file          string
	before, after []byte
}

// done says whether the file has it all already.
func (a *agreement) done() bool { return bytes.Equal(a.before, a.after) }

// prepare plans the change that agrees to what was chosen: those tokens are added, and those that nothing waits for any more
// go.
func prepare(repo *workspace.Repo, at home, found *findings) (*agreement, error) {
	disk := os.DirFS(repo.Root())
	f, err := fleet.Load(disk)
	if err != nil {
		return nil, err
	}
	written, file, err := at.read(f)
	if err != nil {
		return nil, err
	}
	a := &agreement{file: file}
	if a.before, err = read(repo, file); err != nil {
		return nil, err
	}
	tokens := slices.DeleteFunc(slices.Clone(written), func(token string) bool { return !found.waiting[token] })
	for _, token := range found.tokens() {
		if !slices.Contains(tokens, token) {
			tokens = append(tokens, token)
		}
	}
	if a.after = a.before; slices.Equal(tokens, written) {
		return a, nil
	}
	if a.after, err = at.put(file, a.before, tokens, len(written) > 0); err != nil {
		return nil, err
	}
	// Whoever reads the file must find there what was agreed to, and a fleet around it.
	changed, err := fleet.Load(overlay.New(disk, map[string][]byte{file: a.after}))
	if err != nil {
		return nil, err
	}
	if now, _, err := at.read(changed); err != nil || !slices.Equal(now, tokens) {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("%s of %s cannot be changed by a program", at.key, at),
			Fix: fmt.Sprintf("write %s there by hand", flow(tokens)),
		}
	}
	return a, nil
}

// read is the list as the fleet has it, and the file that it stands in.
func (h home) read(f *fleet.Fleet) (tokens []string, file string, err error) {
	if h.service == "" {
		return f.Workspace.Spec.Acknowledged, f.Workspace.Position.File, nil
	}
	s, ok := f.Service(h.service)
	if !ok {
		return nil, "", &ui.Err{Msg: fmt.Sprintf("the work tree has no service %q", h.service), Fix: "git pull"}
	}
	return s.Spec.Sync.Acknowledged, s.Position.File, nil
}

// read is one file of the work tree.
func read(repo *workspace.Repo, name string) ([]byte, error) {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, fleet.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	return text, nil
}

// put is text with the list of tokens in the place of the one that it has, if any. All else stays as it is.
func (h home) put(file string, text []byte, tokens []string, has bool) ([]byte, error) {
	// values sets scalars: one stands in for the list, which YAML lets stand wherever a scalar may.
	const placeholder = "list-of-tokens-0b1d6d0e"
	key, err := h.inDocument(file, text)
	if err != nil {
		return nil, err
	}
	if has {
		if text, err = values.Delete(file, text, key); err != nil {
			return nil, err
		}
	}
	if text, err = values.Set(file, text, key, []byte(placeholder), values.String); err != nil {
		return nil, err
	}
	return bytes.Replace(text, []byte(placeholder), []byte(flow(tokens)), 1), nil
}

// inDocument is the key with the place of its document before it, where a file has several.
func (h home) inDocument(file string, text []byte) (string, error) {
	n, err := documents(text)
	if err != nil || n < 2 || h.service == "" {
		return h.key, err
	}
	for i := range n {
		at := fmt.Sprintf("[%d].", i)
		if name, err := values.Get(file, text, at+"metadata.name"); err == nil && string(name) == h.service {
			return at + h.key, nil
		}
	}
	return h.key, nil
}

// documents counts them.
func documents(text []byte) (int, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return 0, fmt.Errorf("count documents: %w", err)
		}
	}
}

// flow is a list in one line. Some tokens look like numbers, so all are quoted.
func flow(tokens []string) string {
	quoted := make([]string, len(tokens))
	for i, token := range tokens {
		quoted[i] = strconv.Quote(token)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
