// Package needs owns the programs and rights that tests need, and skips where they are missing.
//
// It refuses to know what any test does with it.
package needs

import (
	"net"
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

// Child is the command by which a test starts a child process of ours: a role, such as render-child, that the test's TestMain
// and our programs both know. It is the test's own binary, unless PLURAL_TEST_CHILD names the program to take. Where the race
// detector watches the tests, that is one which it does not slow down: the parent kills a child that has answered, so that
// nobody ever hears what the detector has to say of it.
func Child(tb testing.TB, role string) []string {
	tb.Helper()
	if named := os.Getenv("PLURAL_TEST_CHILD"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			tb.Fatalf("PLURAL_TEST_CHILD: %v: make plural-agent, or unset it", err)
		}
		return []string{path, role}
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{self, role}
}

const noCorpus = "PLURAL_CORPUS does not name the folder of manifests that others wrote: " +
	"make corpus brings it, and make test then names it"

// Corpus is the folder of manifests that others wrote, which PLURAL_CORPUS names. Where it names none the test is skipped, or
// fails, as with a program.
func Corpus(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("PLURAL_CORPUS")
	switch {
	case dir == "" && os.Getenv("CI") != "":
		tb.Fatal(noCorpus)
	case dir == "":
		tb.Skip("SKIPPED, NOT TESTED: " + noCorpus)
	}
	return dir
}

// Address is one of this machine's that is not loopback, to which an API server proxies. Where there is none the test is
// skipped, or fails, as with a program.
func Address(tb testing.TB) string {
	tb.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		tb.Fatal(err)
	}
	for _, a := range all {
		if network, ok := a.(*net.IPNet); ok && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() && network.IP.To4() != nil {
			return network.IP.String()
		}
	}
	if os.Getenv("CI") != "" {
		tb.Fatal("this machine has no address but loopback, so an API server proxies to nothing here")
	}
	tb.Skip("SKIPPED, NOT TESTED: this machine has no address but loopback, so an API server proxies to nothing here")
	return ""
}

// Page skips a test of a folder in test/ that looks at the hub's page, where the programs were built without it, as Program does one
// whose program is missing.
func Page(tb testing.TB) {
	tb.Helper()
	if _, err := os.Stat("../../hubsvc/web/dist/index.html.gz"); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatal("the hub's page is not built: install npm, then make build")
	}
	tb.Skip("SKIPPED, NOT TESTED: the hub's page is not built: install npm, then make build")
}

// Terraform is the path of terraform or tofu: the one that PLURAL_TERRAFORM names, or terraform on PATH. Where there is
// none the test is skipped, or fails, as with a program.
func Terraform(tb testing.TB) string {
	tb.Helper()
	if named := os.Getenv("PLURAL_TERRAFORM"); named != "" {
		return Program(tb, named, "it, or unset PLURAL_TERRAFORM")
	}
	return Program(tb, "terraform", "terraform, or make .tools/tofu and let PLURAL_TERRAFORM name that")
}
