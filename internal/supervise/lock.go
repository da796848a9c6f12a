package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// lockPatience is how long a supervisor tries to take over: whoever only looks whether there is one holds the lock for
// an instant as well.
const lockPatience = time.Second

// takeLock makes this process the folder's only supervisor. The lock goes with the process, however it ends.
func takeLock(dir Dir) (unlock func(), err error) {
	file, err := os.OpenFile(dir.lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock supervisor: %w", err)
	}
	deadline := time.Now().Add(lockPatience)
	for syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		if time.Now().After(deadline) {
			_ = file.Close()
			return nil, ErrRunning
		}
		<-time.After(10 * time.Millisecond)
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

// Running returns the supervisor's process id, or 0 when there is none, or none yet.
func (d Dir) Running() (int, error) {
	_, pid, err := d.holder()
	return pid, err
}

// holder says whether there is a supervisor, and its process id, which is 0 until it has written that down.
func (d Dir) holder() (held bool, pid int, err error) {
	file, err := os.Open(d.lock())
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("look for supervisor: %w", err)
	}
	defer func() { _ = file.Close() }()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return false, 0, nil // nobody holds it; closing the file gives it back
	}
	raw, err := io.ReadAll(io.LimitReader(file, 64))
	if err != nil {
		return false, 0, fmt.Errorf("look for supervisor: %w", err)
	}
	if len(raw) == 0 {
		return true, 0, nil
	}
	if pid, err = strconv.Atoi(string(raw)); err != nil || pid <= 1 {
		return false, 0, fmt.Errorf("look for supervisor: %s holds no process id", d.lock())
	}
	return true, pid, nil
}

// Shutdown ends the supervisor with all its processes, and waits for it.
func (d Dir) Shutdown(ctx context.Context) error {
	asked := 0
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		held, pid, err := d.holder()
		if err != nil || !held {
			return err
		}
		if pid != asked {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stop supervisor %d: %w", pid, err)
			}
			asked = pid
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for supervisor %d to stop: %w", pid, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// Start runs a supervisor for the folder in a process of its own: program with args, which has to call Run. It returns
// when a supervisor has taken over, be it another.
func (d Dir) Start(ctx context.Context, program string, args ...string) error {
	if pid, err := d.Running(); err != nil || pid != 0 {
		return err
	}
	child, err := spawnDetached(d, program, args)
	if err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		ended, status := reap(child)
		if pid, err := d.Running(); err != nil || pid != 0 {
			return err
		}
		if ended {
			return fmt.Errorf("start supervisor: it ended with status %d; its output is in %s", status, d.Log("supervisor"))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("start supervisor: %w; its output is in %s", context.Cause(ctx), d.Log("supervisor"))
		case <-ticker.C:
		}
	}
}

// reap says whether a child has ended, without waiting for it.
func reap(pid int) (ended bool, status int) {
	var wait syscall.WaitStatus
	got, err := syscall.Wait4(pid, &wait, syscall.WNOHANG, nil)
	return got == pid && err == nil, wait.ExitStatus()
}
