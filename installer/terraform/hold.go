package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// look is how often somebody who waits for another process looks again.
	look = 50 * time.Millisecond
	// patience is how long what a dead terraform left running has to end once it was killed.
	patience = 2 * time.Second
)

// hold is a working folder held by one run: by this process, and by the terraform that it starts, which inherits the
// lock. So the folder stays held when this process is killed, until that terraform has ended by itself.
type hold struct {
	file *os.File
}

// holder is who holds a folder, as the lock file tells people and the next run.
type holder struct {
	Plural    int `json:"plural"`
	Terraform int `json:"terraform,omitempty"`
}

// take holds the folder. It waits for a run that holds it, and for the terraform of one that was killed. Where that
// terraform was killed too, it ends what this left running: its providers, its scripts.
func take(ctx context.Context, dir string, log *journal) (*hold, error) {
	name := filepath.Join(dir, "lock")
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	var told int
	var killed time.Time
	for {
		h, who, err := try(name)
		if err != nil || h != nil {
			return h, err
		}
		switch pid, left := who.alive(); {
		case pid != 0 && told != pid:
			log.say(fmt.Sprintf("waiting for process %d, of another run, which is at work in %s", pid, dir))
			told = pid
		case pid == 0 && left > 1 && killed.IsZero():
			log.say(fmt.Sprintf("ending what terraform, process %d, left running when it was killed", left))
			_ = syscall.Kill(-left, syscall.SIGKILL) // it may be gone by now
			killed = time.Now()
		case pid == 0 && left > 1 && time.Since(killed) > patience:
			// Something left the group and lives on, as a daemon does. It has the old lock; nobody asks for that again.
			if err := os.Remove(name); err != nil {
				return nil, fmt.Errorf("hold %s: %w", dir, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("hold %s: process %d is at work there: %w", dir, max(who.Plural, who.Terraform), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// try is the hold, or who has it.
func try(name string) (*hold, holder, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, holder{}, fmt.Errorf("hold folder: %w", err)
	}
	h := &hold{file}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && stands(file, name) {
		if err := h.note(0); err != nil {
			_ = file.Close()
			return nil, holder{}, err
		}
		return h, holder{}, nil
	}
	defer func() { _ = file.Close() }()
	var who holder
	raw, err := io.ReadAll(io.LimitReader(io.NewSectionReader(file, 0, 1<<10), 1<<10))
	if err == nil {
		_ = json.Unmarshal(raw, &who) // half written: it is read again
	}
	return nil, who, nil
}

// stands says whether file is still the one at name: whoever waited may have put a new one there.
func stands(file *os.File, name string) bool {
	locked, err := file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(name)
	return err == nil && os.SameFile(locked, now)
}

// alive is the process to wait for; where that is none, left is the terraform whose children hold the lock.
func (w holder) alive() (pid, left int) {
	for _, pid := range []int{w.Plural, w.Terraform} {
		if pid > 1 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return pid, 0
		}
	}
	return 0, w.Terraform
}

// note writes down which terraform runs; 0 is none.
func (h *hold) note(terraform int) error {
	raw, err := json.Marshal(holder{os.Getpid(), terraform})
	if err == nil {
		err = h.file.Truncate(0)
	}
	if err == nil {
		_, err = h.file.WriteAt(raw, 0)
	}
	if err != nil {
		return fmt.Errorf("note who holds the folder: %w", err)
	}
	return nil
}

// drop lets others have the folder, also when something that terraform started has inherited the lock and lives on.
func (h *hold) drop() error {
	return errors.Join(syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN), h.file.Close())
}
