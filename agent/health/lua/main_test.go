package lua_test

import (
	"os"
	"testing"

	"github.com/pluralsh/plural/agent/health/lua"
)

// The test binary is its own child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "health-child" {
		os.Exit(lua.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// scripts runs them in a real child, with time enough for a busy machine.
func scripts(t *testing.T) *lua.Scripts {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &lua.Scripts{Command: []string{program, "health-child"}, Wall: slow}
	t.Cleanup(s.Close)
	return s
}
