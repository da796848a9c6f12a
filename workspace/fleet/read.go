package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of one load. They are far above what fleets need, and keep hostile input cheap.
const (
	MaxFile      = 1 << 20  // bytes in one file
	MaxTotal     = 64 << 20 // bytes in all files
	MaxDocuments = 20_000   // documents in all files, empty ones too
	MaxDepth     = 100      // levels inside one document
	MaxNodes     = 100_000  // keys and values of one document, aliases written out
	MaxAliases   = 1_000    // times that one document uses an anchor, aliases written out
)

// workspaceFile is the one file every installation repo has.
const workspaceFile = "plural.yaml"

// loader reads one repository. A value is used once.
type loader struct {
	fsys      fs.FS
	fleet     Fleet
	faults    faults
	documents int
	bytes     int
	// agentKeys holds where each agent's key was seen first.
	agentKeys map[string]Position
}

// readAll reads every file of ours. The error is one of reading; mistakes go to l.faults.
func (l *loader) readAll() error {
	if err := l.readWorkspace(); err != nil {
		return err
	}
	for _, folder := range folders() {
		if err := l.readFolder(folder); err != nil {
			return err
		}
	}
	return l.readPackages()
}

func (l *loader) readWorkspace() error {
	info, err := fs.Stat(l.fsys, workspaceFile)
	at := Position{File: workspaceFile}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.faults.add(at, `create it with "plural init"`, "file not found")
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", workspaceFile, err)
	case !info.Mode().IsRegular():
		l.faults.add(at, "put the file itself here", "not a regular file")
		return nil
	}
	if err := l.readFile(workspaceFile, folder{kinds: []string{kindWorkspace}}); err != nil {
		return err
	}
	if l.fleet.Workspace.Position.Line == 0 && len(l.faults.list) == 0 {
		l.faults.add(at, "write a Workspace document", "file is empty")
	}
	return nil
}

func (l *loader) readFolder(f folder) error {
	entries, err := fs.ReadDir(l.fsys, f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", f.name, err)
	}
	for _, e := range entries {
		name := path.Join(f.name, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			l.faults.add(Position{File: name}, "move its files into "+f.name+"/", "folders inside %s/ are not read", f.name)
		case !isYAML(e.Name()):
		case !e.Type().IsRegular():
			l.faults.add(Position{File: name}, "put the file itself here", "not a regular file")
		default:
			if err := l.readFile(name, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func isYAML(name string) bool {
	ext := strings.ToLower(path.Ext(name))
	return ext == ".yaml" || ext == ".yml"
}

// readFile decodes every document of one file.
func (l *loader) readFile(name string, f folder) error {
	data, err := l.readBounded(name)
	if data == nil || err != nil {
		return err
	}
	lines := &lineReader{rest: data}
	decoder := yaml.NewDecoder(lines)
	for {
		var root yaml.Node
		switch err := decoder.Decode(&root); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			l.syntaxError(name, data, lines.line, err)
			return nil
		case l.documents == MaxDocuments:
			l.faults.add(Position{File: name}, "", "the repository holds more than %d documents", MaxDocuments)
			return nil
		}
		l.document(name, &root, f)
	}
}

// readBounded is nil without error when the file is over a bound, which it has reported then.
func (l *loader) readBounded(name string) ([]byte, error) {
	file, err := l.fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", quote(name), err)
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", quote(name), err)
	}
	l.bytes += len(data)
	switch {
	case len(data) > MaxFile:
		l.faults.add(Position{File: name}, "split it", "file is larger than %d MiB", MaxFile>>20)
		return nil, nil
	case l.bytes > MaxTotal:
		l.faults.add(Position{File: name}, "", "the repository's documents are larger than %d MiB together", MaxTotal>>20)
		return nil, nil
	}
	return data, nil
}

// document takes one parsed document through bounds, decoding and checks.
func (l *loader) document(file string, root *yaml.Node, f folder) {
	l.documents++
	if len(root.Content) == 0 || isNull(root.Content[0]) {
		return // only comments, or nothing between two separators
	}
	node := root.Content[0]
	if err := checkBounds(node); err != nil {
		err.File = file
		l.faults.put(err)
		return
	}
	d := &document{file: file, root: node, fields: map[string]Position{}, faults: &l.faults}
	if kind, ok := d.header(f); ok {
		l.add(d, kind)
	}
}

// parserLine is where the YAML parser puts its line.
var parserLine = regexp.MustCompile(`^line (\d+): `)

// syntaxError turns the parser's complaint into one with a true line: for mistakes of structure the parser names the
// line before the start of the block, so the line that it had read by then is used instead.
func (l *loader) syntaxError(file string, data []byte, read int, err error) {
	if at := conflictMarker(data); at > 0 {
		l.faults.add(Position{File: file, Line: at}, "finish the merge and remove the markers", "merge conflict in the file")
		return
	}
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 0
	if m := parserLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits only; a number out of range reads as unknown
		message = message[len(m[0]):]
	}
	if line == 0 || strings.HasPrefix(message, "did not find expected") {
		line = read
	}
	l.faults.add(Position{File: file, Line: line}, yamlHint(message), "not YAML: %s", message)
}

// yamlHint explains the parser's commonest complaints.
func yamlHint(message string) string {
	switch {
	case strings.Contains(message, "cannot start any token"):
		return "indent with spaces, and quote a value that begins with a special character"
	case strings.Contains(message, "mapping values are not allowed"):
		return "check the indentation, or quote a value that contains a colon"
	case strings.Contains(message, "did not find expected"):
		return "check the indentation of this line and of the lines above it"
	}
	return ""
}

// conflictMarker is the line of git's first conflict marker, or 0.
func conflictMarker(data []byte) int {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if bytes.HasPrefix(text, []byte("<<<<<<< ")) {
			return line
		}
	}
	return 0
}

// lineReader hands out one line at a time, so that line says how far the parser has read.
type lineReader struct {
	rest []byte
	line int
	mid  bool // the last read ended inside a line
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	if !r.mid {
		r.line++
	}
	end := bytes.IndexByte(r.rest, '\n') + 1
	if end == 0 {
		end = len(r.rest)
	}
	n := copy(p, r.rest[:end])
	r.mid = r.rest[n-1] != '\n'
	r.rest = r.rest[n:]
	return n, nil
}
