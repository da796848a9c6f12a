package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

var rewrite = flag.Bool("update", false, "write the golden files anew")

// written is a literal of ui.Err in the program's text.
type written struct {
	file                            string
	message, cause, fix, doc, place string
	// empty says that the literal has no message: it is set later, or it is a code alone.
	empty bool
}

// errorsWritten are all of them, in the order of files and lines.
func errorsWritten(t *testing.T) []written {
	t.Helper()
	var all []written
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && isErr(literal, file.Name.Name) {
				w := read(set, literal)
				w.file, w.place = filepath.ToSlash(path), set.Position(literal.Pos()).String()
				all = append(all, w)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func isErr(literal *ast.CompositeLit, in string) bool {
	switch typ := literal.Type.(type) {
	case *ast.SelectorExpr:
		from, ok := typ.X.(*ast.Ident)
		return ok && from.Name == "ui" && typ.Sel.Name == "Err"
	case *ast.Ident:
		return in == "ui" && typ.Name == "Err"
	}
	return false
}

func read(set *token.FileSet, literal *ast.CompositeLit) written {
	w := written{empty: true}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		text := exprText(set, pair.Value)
		switch pair.Key.(*ast.Ident).Name {
		case "Msg":
			w.message, w.empty = text, false
		case "Cause":
			w.cause = text
		case "Fix":
			w.fix = text
		case "Doc":
			w.doc = text
		}
	}
	return w
}

// exprText is an expression on one line; a template stands for the call that fills it in.
func exprText(set *token.FileSet, expr ast.Expr) string {
	if call, ok := expr.(*ast.CallExpr); ok && len(call.Args) > 0 {
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			expr = call.Args[0]
		}
	}
	var b bytes.Buffer
	_ = printer.Fprint(&b, set, expr)
	text := strings.Join(strings.Fields(b.String()), " ")
	if plain, err := strconv.Unquote(text); err == nil && !strings.Contains(plain, "\n") {
		return plain
	}
	return text
}

// fixedLater are the errors whose literal has no fix, with what has it.
var fixedLater = map[string]string{
	"audit/verify.go: the audit log is not what the hub wrote": "each break has its own",
	"cmdutil/explain.go: interrupted":                          "whoever pressed Ctrl-C knows",
	`cmdutil/explain.go: subject + " has an error"`:            "the mistake has its own",
	"cmdutil/explain.go: %s has %d errors":                     "each mistake has its own",
	"cmdutil/explain.go: err.Error()":                          "each case sets one, or there is no error",
	"cryptocmd/status.go: count(len(findings), \"file is\", \"files are\") + \" not sealed as \" + policy.File + \" wants\"": "each file has its own",
	"cryptocmd/unlock.go: nothing is unlocked: %s in the way":                                                                "each file has its own",
	"cryptocmd/unlock.go: nothing is locked: %s would lose changes":                                                          "each file has its own",
	"document/edit.go: err.Error()":                                                                                          "nothing is known of it but where the text is kept",
	"pkg/change.go: %d files could not be merged":                                                                            "set below, by whether files are written",
	"pkg/given.go: what":                     "each question has its own",
	"status/status.go: it has not converged": "the lines say what is waited for",
	"ui/err.go: err.Error()":                 "an error that nobody explained",
}

func TestEveryErrorSaysWhatMendsIt(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range errorsWritten(t) {
		if w.fix != "" || w.empty {
			continue
		}
		key := w.file + ": " + w.message
		seen[key] = true
		if fixedLater[key] == "" {
			t.Errorf("%s: %q has no Fix: say what to do, or in this test what does", w.place, w.message)
		}
	}
	for key := range fixedLater {
		if !seen[key] {
			t.Errorf("%s is not without a fix any more: take it off the list", key)
		}
	}
}

// TestTheWordsOfErrorsAreReviewed holds all messages with their fixes to a file that people read when it changes.
func TestTheWordsOfErrorsAreReviewed(t *testing.T) {
	byFile := map[string][]string{}
	for _, w := range errorsWritten(t) {
		if w.empty && w.fix == "" {
			continue
		}
		line := "  " + w.message
		if w.cause != "" {
			line += "\n    cause: " + w.cause
		}
		if w.fix != "" {
			line += "\n    fix: " + w.fix
		}
		if w.doc != "" {
			line += "\n    class: " + strings.TrimPrefix(w.doc, "ui.")
		}
		byFile[w.file] = append(byFile[w.file], line)
	}
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		fmt.Fprintf(&b, "%s\n%s\n", file, strings.Join(byFile[file], "\n"))
	}
	golden(t, filepath.Join("testdata", "errors.golden"), b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if diff := cmp.Diff(string(want), got); diff != "" || err != nil {
		t.Errorf("%s: %v\n%s\nlook at each line that changed, then: go test ./cli -run %s -update", name, err, diff, t.Name())
	}
}

// TestMessagesAreWrittenTheSameWay looks at what can be seen of them without running anything.
func TestMessagesAreWrittenTheSameWay(t *testing.T) {
	for _, w := range errorsWritten(t) {
		for _, text := range []string{w.message, w.fix} {
			if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.Contains(strings.ToLower(text), "failed to ") || strings.Contains(text, "please") {
				t.Errorf("%s: %q: no full stop, no \"failed to\", no pleading", w.place, text)
			}
		}
	}
}

func TestEveryClassOfErrorIsDescribed(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^### ([a-z-]+)$`).FindAllStringSubmatch(string(page), -1) {
		described[heading[1]] = true
	}
	names, used := classes(t)
	for name, anchor := range names {
		if !described[anchor] {
			t.Errorf("docs/errors.md has no section %q", anchor)
		}
		if !used[name] {
			t.Errorf("nothing says %s", name)
		}
		delete(described, anchor)
	}
	for anchor := range described {
		t.Errorf("docs/errors.md describes %q, which nothing says", anchor)
	}
}

// classes are the constants of ui.Doc with their anchors, and those of them that the program's text has outside of their list.
func classes(t *testing.T) (anchors map[string]string, used map[string]bool) {
	t.Helper()
	anchors, used = map[string]string{}, map[string]bool{}
	constant := regexp.MustCompile(`\b(Doc[A-Z][A-Za-z]*) +Doc = "([a-z-]+)"`)
	mention := regexp.MustCompile(`\bDoc[A-Z][A-Za-z]*\b`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if path == filepath.Join("ui", "doc.go") {
			for _, found := range constant.FindAllStringSubmatch(string(text), -1) {
				anchors[found[1]] = found[2]
			}
			return err
		}
		for _, name := range mention.FindAllString(string(text), -1) {
			used[name] = true
		}
		return err
	})
	if err != nil || len(anchors) < 30 {
		t.Fatal(err, anchors)
	}
	return anchors, used
}

func TestErrorsForProgramsKeepTheirSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "schema", "error.json"))
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("error.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("error.json")
	if err != nil {
		t.Fatal(err)
	}
	broken := newDesk(t)
	if err := os.WriteFile(filepath.Join(broken.repo, "services", "web.yaml"), []byte("kind: Nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"status --hub http://127.0.0.1:1", "service get nothing", "nonsense", "status --nonsense", "cluster get", "-C / validate", "validate",
		"package list --filter policy:low", "-C / package list", "service set nothing a=b", "crypto members get nobody", "undo --dry-run 12345678",
	} {
		got := broken.plural(t, append(strings.Fields(args), "-o", "json")...)
		told, err := jsonschema.UnmarshalJSON(strings.NewReader(got.errOut))
		if err != nil || got.code == ui.ExitOK {
			t.Errorf("%s: %d, %v, %q", args, got.code, err, got.errOut)
			continue
		}
		if err := schema.Validate(told); err != nil {
			t.Errorf("%s: %v\n%s", args, err, got.errOut)
		}
	}
}

func TestAnErrorThatNothingExplainsIsKeptWhole(t *testing.T) {
	dir := t.TempDir()
	f := &cmdutil.Factory{Version: "1.2.3", Now: now, Getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] }}
	secret := "https://user:token@git.example.com/fleet.git"
	err := fmt.Errorf("fetch %s into /home/ada/fleet for \"prod\": %w", secret, errors.New("unexpected packet"))
	var told *ui.Err
	if !errors.As(unexpected(f, err), &told) {
		t.Fatal("it is not told")
	}
	_, address, _ := strings.Cut(told.Fix, "https://")
	link, parseErr := url.Parse("https://" + address)
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	if got, want := link.Query().Get("title"), "fetch … into … for …: unexpected packet"; got != want {
		t.Errorf("the report's title is %q, want %q", got, want)
	}
	if got := link.Query().Get("body"); got != "plural 1.2.3" {
		t.Errorf("the report says %q", got)
	}
	log, readErr := os.ReadFile(told.See)
	if readErr != nil || !strings.Contains(string(log), "  *errors.errorString: unexpected packet\n") {
		t.Errorf("%v: %q", readErr, log)
	}
	if info, err := os.Stat(told.See); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

func TestAReportIsShort(t *testing.T) {
	if got := report("1", errors.New(strings.Repeat("ä b ", 5000))); len(got) > 2000 {
		t.Errorf("%d bytes", len(got))
	}
}

func TestExplainedErrorsAreNotReported(t *testing.T) {
	told := &ui.Err{Msg: "m", Fix: "f"}
	if got := unexpected(&cmdutil.Factory{}, told); !errors.Is(got, told) {
		t.Error(got)
	}
}
