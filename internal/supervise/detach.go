package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// spawnDetached starts a process that the terminal, and the end of this process, leave alone.
func spawnDetached(d Dir, program string, args []string) (pid int, err error) {
	if err := os.MkdirAll(filepath.Join(string(d), logDir), 0o700); err != nil {
		return 0, err
	}
	output, err := os.OpenFile(d.Log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = output.Close() }()
	cmd := exec.Command(program, args...) //nolint:noctx // it outlives this process
	cmd.Dir = string(d)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}
