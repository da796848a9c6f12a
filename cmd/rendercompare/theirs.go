package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"
)

// maxPrinted is how much kustomize or helm may print, in bytes.
const maxPrinted = 256 << 20

// programs are kustomize and helm over a work tree.
type programs struct {
	options
	// tree is the work tree; home holds what helm keeps for itself.
	tree, home string
}

// render runs the item's program, and returns what it printed.
func (p *programs) render(ctx context.Context, i item) rendition {
	dir := filepath.Join(p.tree, filepath.FromSlash(i.Path))
	args := []string{p.kustomize, "build", "--enable-helm", "--helm-command", p.helm, dir}
	if i.Renderer == "helm" {
		args = []string{
			p.helm, "template", release, dir, "--namespace", "default", "--include-crds", "--kube-version", p.kubeVersion,
		}
		if len(p.apiVersions) > 0 {
			args = append(args, "--api-versions", strings.Join(p.apiVersions, ","))
		}
		if i.Values != "" {
			args = append(args, "--values", filepath.Join(p.tree, filepath.FromSlash(i.Values)))
		}
	}
	started := time.Now()
	printed, err := p.output(ctx, args)
	took := time.Since(started)
	if err != nil {
		return rendition{err: err, took: took}
	}
	objects, err := parse(printed)
	return rendition{objects: objects, err: err, took: took}
}

// output is what a program prints. Its error is what it says of the cause, without this machine's folders.
func (p *programs) output(ctx context.Context, args []string) ([]byte, error) {
	timed, stop := context.WithTimeout(ctx, p.limit)
	defer stop()
	cmd := exec.CommandContext(timed, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+p.home, "HELM_CONFIG_HOME="+p.home, "HELM_DATA_HOME="+p.home,
		"KUBECONFIG="+os.DevNull, "GIT_TERMINAL_PROMPT=0")
	printed, said := &bounded{most: maxPrinted}, &bounded{most: 64 << 10}
	cmd.Stdout, cmd.Stderr = printed, said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case timed.Err() != nil:
		return nil, fmt.Errorf("takes longer than %v", p.limit)
	case printed.full:
		return nil, fmt.Errorf("prints more than %d MiB", maxPrinted>>20)
	case err != nil:
		text := strings.NewReplacer(p.tree+"/", "", p.tree, ".", p.home, "HELM").Replace(said.String())
		if text = strings.TrimPrefix(strings.TrimSpace(text), "Error: "); text == "" {
			text = err.Error()
		}
		return nil, errors.New(text)
	}
	return printed.Bytes(), nil
}

// bounded keeps no more than so many bytes, and forgets the rest.
type bounded struct {
	bytes.Buffer
	most int
	full bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); len(p) > room {
		b.full = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// parse reads objects as helm install and kubectl apply do. A List is replaced by its items.
func parse(printed []byte) ([]object, error) {
	var all []object
	for docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(printed))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was printed: %w", err)
		}
		text, err := sigs.YAMLToJSON(doc)
		if err != nil {
			return nil, fmt.Errorf("read what was printed: %w", err)
		}
		var value any
		if err := utiljson.Unmarshal(text, &value); err != nil {
			return nil, fmt.Errorf("read what was printed: %w", err)
		}
		if value == nil {
			continue
		}
		content, ok := value.(map[string]any)
		if !ok {
			return nil, errors.New("read what was printed: a document is not a mapping")
		}
		all = append(all, expand(content)...)
	}
}

// expand replaces a List by its items.
func expand(content map[string]any) []object {
	kind, _ := content["kind"].(string)
	items, isList := content["items"].([]any)
	if !strings.HasSuffix(kind, "List") || !isList {
		return []object{content}
	}
	var all []object
	for _, each := range items {
		if inner, ok := each.(map[string]any); ok {
			all = append(all, expand(inner)...)
		}
	}
	return all
}
