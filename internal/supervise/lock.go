package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// takeLock makes this process the folder's only supervisor. The lock goes with the process, however it ends.
func takeLock(dir Dir) (unlock func(), err error) {
	file, err := os.OpenFile(dir.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock supervisor: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, ErrRunning
	}
	if err := errors.Join(file.Truncate(0), write(file, strconv.Itoa(os.Getpid()))); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock supervisor: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

func write(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// Running returns the supervisor's process id, or 0 when there is none.
func (d Dir) Running() (int, error) {
	file, err := os.Open(d.lock())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for supervisor: %w", err)
	}
	defer func() { _ = file.Close() }()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return 0, nil // nobody holds it; closing the file gives it back
	}
	raw, err := os.ReadFile(d.lock())
	if err != nil {
		return 0, fmt.Errorf("look for supervisor: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return 0, fmt.Errorf("look for supervisor: %s holds no process id", d.lock())
	}
	return pid, nil
}

// Shutdown ends the supervisor with all its processes, and waits for it.
func (d Dir) Shutdown(ctx context.Context) error {
	asked := false
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		pid, err := d.Running()
		if err != nil || pid == 0 {
			return err
		}
		if !asked {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop supervisor %d: %w", pid, err)
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for supervisor %d to stop: %w", pid, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Start runs a supervisor for the folder in a process of its own: program with args, which has to call Run. It returns
// when the supervisor has taken over.
func (d Dir) Start(ctx context.Context, program string, args ...string) error {
	if pid, err := d.Running(); err != nil || pid != 0 {
		return err
	}
	if err := spawnDetached(d, program, args); err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if pid, err := d.Running(); err != nil || pid != 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start supervisor: %w; its output is in %s", ctx.Err(), d.Log("supervisor"))
		case <-ticker.C:
		}
	}
}
