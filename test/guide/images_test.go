package guide

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/tools/release/images"
)

// images are those of a clone, as make images has written them, and those that it writes when it is called again.
func (s *shell) images() {
	s.t.Helper()
	for folder, tag := range map[string]string{"dist/images": "dev-0a1b2c3d4e5f", "next": "dev-5f4e3d2c1b0a"} {
		for _, name := range []string{"plural", "plural-agent"} {
			layout := filepath.Join(s.home, folder, name)
			file := program(s.t, name)
			if folder == "next" { // nobody looks into these
				file = filepath.Join(root, readme)
			}
			err := os.MkdirAll(layout, 0o755)
			if err == nil {
				_, err = images.Pack(s.t.Context(), layout, &images.Image{
					Name: "ghcr.io/pluralsh/" + name + ":" + tag, Created: time.Unix(0, 0),
					Programs: []images.Program{{OS: runtime.GOOS, Arch: runtime.GOARCH, File: file}},
				})
			}
			if err == nil {
				err = images.Archive(layout, layout+".tar", time.Unix(0, 0))
			}
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.stands("make images", "rm -r ~/dist/images && mv ~/next ~/dist/images")
}

// containerd is that of a node.
func (s *shell) containerd() {
	s.t.Helper()
	needs.Root(s.t, "containerd")
	needs.Program(s.t, "runc", "runc")
	dir := s.t.TempDir()
	socket := filepath.Join(dir, "containerd.sock")
	s.write("containerd.toml", fmt.Sprintf(
		"version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket))
	ctx := context.WithoutCancel(s.t.Context())
	cmd := exec.CommandContext(ctx, needs.Program(s.t, "containerd", "containerd"), "--config", filepath.Join(s.home, "containerd.toml"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	s.stands("sudo ctr", "ctr --connect-timeout 30s --address "+socket)
}

// insecure is a registry under a name of the pages, which skopeo reaches without TLS.
func (s *shell) insecure(name string) {
	s.t.Helper()
	needs.Program(s.t, "skopeo", "skopeo")
	s.registry(name)
	s.write(".config/containers/registries.conf", fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", s.here(name)))
}
