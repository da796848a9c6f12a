package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/service"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/walktest"
)

func TestARollbackOfMoreFilesThanAreComparedIsLeftToGit(t *testing.T) {
	dir := t.TempDir()
	git := func(stdin string, args ...string) string { return walktest.Feed(t, dir, stdin, args...) }
	blob := func(text string) string { return "100644 blob " + git(text, "hash-object", "-w", "--stdin") }
	folder := func(each string) string {
		var lines strings.Builder
		for i := range 400 {
			fmt.Fprintf(&lines, "%s\t%03d\n", each, i)
		}
		return "040000 tree " + git(lines.String(), "mktree")
	}
	git("", "init", "-q", "-b", "main")
	const (
		fleet = "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n"
		web   = "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web}\n" +
			"spec: {source: {path: apps/web}, namespace: web, clusters: {}}\n"
	)
	rest := blob(fleet) + "\tplural.yaml\n040000 tree " + git(blob(web)+"\tweb.yaml\n", "mktree") + "\tservices\n"
	tree := func(web string) string {
		return git(rest+"040000 tree "+git(web+"\tweb\n", "mktree")+"\tapps\n", "mktree")
	}
	large := git("", "commit-tree", tree(folder(folder(blob("")))), "-m", "Large")
	small := git("", "commit-tree", tree("040000 tree "+git(blob("")+"\ta.yaml\n", "mktree")), "-p", large, "-m", "Small")
	git("", "reset", "-q", "--hard", small)

	var said bytes.Buffer
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: &said, ErrOut: &said}, Now: time.Now, Getenv: os.Getenv,
		Globals: cmdutil.Globals{Dir: dir, Yes: true},
	}
	cmd := service.NewCmdService(f)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"rollback", "web", large}) // without it the state is passed over, which no hub serves
	err := cmd.ExecuteContext(t.Context())
	var told *ui.Err
	if !errors.As(err, &told) || told.Doc != ui.DocUndo || !strings.Contains(told.Fix, "git restore --source COMMIT FOLDER") ||
		!strings.Contains(told.Cause, "more than 100000 files") {
		t.Errorf("%+v\n%s", err, said.String())
	}
}
