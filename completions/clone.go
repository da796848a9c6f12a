package completions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/gitexec"
)

// Bounds of reading a clone. What lies beyond is left out: a shell shows a screen of words.
const (
	maxOpened  = 300      // files that are opened; of further ones the file's name is taken
	maxFile    = 64 << 10 // bytes of one
	maxCommits = 50
)

// Clone knows what stands in the work tree of an installation repo. It does not mind mistakes in it: a file that cannot be read
// is known by its name.
func Clone(dir string) Lookup {
	return func(ctx context.Context, kind Kind, _ string) ([]Word, error) {
		if kind == Commits {
			return commits(ctx, dir)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		switch kind {
		case Clusters, Services, Sources:
			return documents(ctx, root.FS(), string(kind)+"s", string(kind)), nil
		case Tags:
			return tags(documents(ctx, root.FS(), "clusters", "cluster")), nil
		case Users:
			return documents(ctx, root.FS(), "access", "user"), nil
		case Packages:
			return installations(ctx, root.FS()), nil
		case Groups:
			return entries(root.FS(), ".plural/groups", ""), nil
		case Members:
			return entries(root.FS(), ".plural/members", ".txt"), nil
		}
		return nil, ErrUnknown
	}
}

// document is what names a document of a fleet, and what tells it from its neighbours.
type document struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		Tags    map[string]string `yaml:"tags"`
		Package string            `yaml:"package"`
		Version string            `yaml:"version"`
		Source  struct {
			Name string `yaml:"name"`
			Path string `yaml:"path"`
		} `yaml:"source"`
		Git  upstream `yaml:"git"`
		Helm upstream `yaml:"helm"`
		OCI  upstream `yaml:"oci"`
		HTTP upstream `yaml:"http"`
	} `yaml:"spec"`
}

// upstream is a source's address, or a service's chart.
type upstream struct {
	URL   string `yaml:"url"`
	Chart string `yaml:"chart"`
}

// about is a line about the document.
func (d *document) about() string {
	switch strings.ToLower(d.Kind) {
	case "cluster":
		var tags []string
		for _, key := range slices.Sorted(maps.Keys(d.Spec.Tags)) {
			tags = append(tags, key+"="+d.Spec.Tags[key])
		}
		return strings.Join(tags, " ")
	case "service":
		return strings.Join(strings.Fields(d.Spec.Source.Name+" "+d.Spec.Source.Path+" "+d.Spec.Helm.Chart), " ")
	case "source":
		return d.Spec.Git.URL + d.Spec.Helm.URL + d.Spec.OCI.URL + d.Spec.HTTP.URL
	}
	return ""
}

// documents are those of a kind in the files of a folder, by name.
func documents(ctx context.Context, fsys fs.FS, folder, kind string) []Word {
	files, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return nil
	}
	var words []Word
	for i, file := range files {
		ext := strings.ToLower(path.Ext(file.Name()))
		if ext != ".yaml" && ext != ".yml" || strings.HasPrefix(file.Name(), ".") || !file.Type().IsRegular() {
			continue
		}
		var found []Word
		if i < maxOpened && ctx.Err() == nil {
			found = read(fsys, path.Join(folder, file.Name()), kind)
		}
		if found == nil && kind != "user" { // access/ holds other kinds too
			found = []Word{{Text: strings.TrimSuffix(file.Name(), path.Ext(file.Name()))}}
		}
		words = append(words, found...)
	}
	return sorted(words)
}

// tags are those that clusters are told from each other by.
func tags(clusters []Word) []Word {
	var words []Word
	for _, c := range clusters {
		for _, tag := range strings.Fields(c.About) {
			words = append(words, Word{Text: tag})
		}
	}
	return sorted(words)
}

// read is nil where the file says no names.
func read(fsys fs.FS, name, kind string) []Word {
	var words []Word
	for _, d := range decode(fsys, name) {
		if strings.EqualFold(d.Kind, kind) && d.Metadata.Name != "" {
			words = append(words, Word{d.Metadata.Name, d.about()})
		}
	}
	return words
}

// decode reads the documents of a file up to the first mistake.
func decode(fsys fs.FS, name string) []document {
	file, err := fsys.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil
	}
	var all []document
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var d document
		if decoder.Decode(&d) != nil {
			return all
		}
		all = append(all, d)
	}
}

func installations(ctx context.Context, fsys fs.FS) []Word {
	folders, err := fs.ReadDir(fsys, "packages")
	if err != nil {
		return nil
	}
	var words []Word
	for i, folder := range folders {
		if !folder.IsDir() || strings.HasPrefix(folder.Name(), ".") {
			continue
		}
		w := Word{Text: folder.Name()}
		if i < maxOpened && ctx.Err() == nil {
			for _, d := range decode(fsys, path.Join("packages", folder.Name(), "package.yaml")) {
				w.About = strings.TrimSpace(d.Spec.Package + " " + d.Spec.Version)
			}
		}
		words = append(words, w)
	}
	return sorted(words)
}

// entries are what a folder holds, without the ending that its files have; folders where there is none.
func entries(fsys fs.FS, folder, ending string) []Word {
	list, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return nil
	}
	var words []Word
	for _, entry := range list {
		name, ok := strings.CutSuffix(entry.Name(), ending)
		if ok && entry.IsDir() == (ending == "") && !strings.HasPrefix(name, ".") {
			words = append(words, Word{Text: name})
		}
	}
	return sorted(words)
}

// commits are the newest, with their subjects.
func commits(ctx context.Context, dir string) ([]Word, error) {
	out, err := gitexec.Call{
		Dir: dir, Env: []string{"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"},
		Args: []string{"log", "--no-show-signature", fmt.Sprintf("--max-count=%d", maxCommits), "--format=%h%x09%s"},
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("list commits: %w", err)
	}
	var words []Word
	for line := range strings.Lines(string(out)) {
		id, subject, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		words = append(words, Word{id, subject})
	}
	return words, nil
}

// sorted is words in order, each once.
func sorted(words []Word) []Word {
	slices.SortFunc(words, func(a, b Word) int { return strings.Compare(a.Text, b.Text) })
	return slices.CompactFunc(words, func(a, b Word) bool { return a.Text == b.Text })
}
