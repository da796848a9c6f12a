// Package needs owns what a test does without a program that it needs.
//
// It refuses to know what any test does with the program.
package needs

import (
	"os"
	"os/exec"
	"testing"
)

// Program is the path of a program. Where it is missing the test is skipped, and says so; in CI it fails, since a check
// that cannot fail checks nothing. From is where to get the program.
func Program(tb testing.TB, name, from string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err != nil && os.Getenv("CI") != "":
		tb.Fatalf("%s is not on PATH: install %s", name, from)
	case err != nil:
		tb.Skipf("SKIPPED, NOT TESTED: %s is not on PATH: install %s", name, from)
	}
	return path
}

// Root skips a test that only root can run, as Program does one whose program is missing.
func Root(tb testing.TB, what string) {
	tb.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		tb.Fatalf("%s wants root", what)
	default:
		tb.Skipf("SKIPPED, NOT TESTED: %s wants root", what)
	}
}
