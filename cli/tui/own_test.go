package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/usercommands"
)

func commandsAt(key string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Commands\nspec:\n  commands:\n" +
		fmt.Sprintf("  - {key: %q, name: pods of, scope: [service], run: \"true\"}\n", key)
}

func TestNoKeyOfTheConsoleCanBeTakenAway(t *testing.T) {
	all := taken()
	for _, key := range []string{"d", "S", "p", "3", "w", "n", "L", "j", "?", "ctrl+c", "*", "O", "K", "z", "y"} {
		if _, err := usercommands.Parse(usercommands.File, []byte(commandsAt(key)), all); err == nil || !strings.Contains(err.Error(), "is taken: ") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{"ctrl+o", "alt+1", "f2", "W"} {
		if _, err := usercommands.Parse(usercommands.File, []byte(commandsAt(key)), all); err != nil {
			t.Error(err)
		}
	}
}

func TestAMistakeInOwnCommandsIsToldAndKeepsNobodyOut(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, usercommands.File), []byte(commandsAt("d")), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &cmdutil.Factory{Getenv: func(name string) string { return map[string]string{"PLURAL_CONFIG_DIR": dir}[name] }}
	desk := act.New(&pane.World{Context: t.Context(), Fleet: model.New(clock()), Look: paint.NewLook(paint.Options{}), Now: clock()}, act.Runner{})
	defer desk.Close()
	told := (&options{factory: f}).own(desk)
	if !told.Bad || !strings.HasSuffix(told.Text, `commands.yaml:5:11: the key "d" is taken: describe: choose another, such as ctrl+o, alt+1 or f2`) {
		t.Errorf("%+v", told)
	}
	told.Text = strings.TrimPrefix(told.Text, dir+"/") // which is as long as it is, and the line is not
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, fleet()), now: clock(), greeting: told})
		s.shows("live", `the key "d" is taken: describe`)
		s.press("j")
		s.shows("live")
	})
}

func TestOwnCommandsAreInTheHelpAndInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, set{hub: newHub(t, fleet()), now: clock(), line: "services payments", own: []usercommands.Command{
			{Key: "f2", Name: "greet " + hostile, Scope: []string{"service"}, Run: `echo "hello $SERVICE"`},
		}})
		s.press("?greet")
		s.shows("f2", "greet")
		s.press("<enter>")
		s.press("@")
		s.shows("env CLUSTER= SERVICE=payments")
		s.press("<enter>")
		s.shows("hello payments")
	})
}
