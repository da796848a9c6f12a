package pkg

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/catalog"
)

// tool is a factory without a terminal, and what it prints.
func tool(t *testing.T) (*cmdutil.Factory, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	home := t.TempDir()
	return &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Now: time.Now,
		Getenv: func(name string) string { return map[string]string{"HOME": home}[name] },
	}, &out
}

func call(cmd *cobra.Command, args ...string) error {
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(context.Background())
}

func TestAPackageIsPublishedOnce(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, 0))))
	defer server.Close()
	url := "oci://" + strings.TrimPrefix(server.URL, "http://") + "/team/packages"
	dir := filepath.Join(t.TempDir(), "web")
	f, out := tool(t)
	if err := call(newCmdNew(f), dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"published: web_0.1.0", "there already: web_0.1.0"} {
		out.Reset()
		if err := call(newCmdPublish(f), dir, url, "--plain-http"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "sha256:") {
			t.Errorf("it says %q, not %q", out.String(), want)
		}
	}
	c, err := catalog.OCI("team", catalog.OCIOptions{URL: url, PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	if names, err := c.Packages(context.Background()); err != nil || len(names) != 1 || names[0] != "web" {
		t.Errorf("the catalog has %v, %v", names, err)
	}

	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := call(newCmdPublish(f), dir, url, "--plain-http"); err == nil {
		t.Error("other files were published under the same version")
	}
	if err := call(newCmdPublish(f), dir, url, "--plain-http", "--force"); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBePublishedIsTold(t *testing.T) {
	f, _ := tool(t)
	dir := filepath.Join(t.TempDir(), "web")
	if err := call(newCmdNew(f), dir); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a key that is not there": {[]string{dir, "oci://127.0.0.1:1/x", "--plain-http", "--key", "nowhere.pem"}, "cannot read the key"},
		"a registry that is away": {[]string{dir, "oci://127.0.0.1:1/x", "--plain-http"}, "connection refused"},
		"no registry":             {[]string{dir, "https://example.org/x"}, "published to registries"},
		"no package":              {[]string{t.TempDir(), "oci://127.0.0.1:1/x", "--plain-http"}, "the package has an error"},
	} {
		if err := cmdutil.Explain(call(newCmdPublish(f), c.args...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %s", name, err, c.want)
		}
	}
}
