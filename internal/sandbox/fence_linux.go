//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readable are the folders and files of a system that programs of any kind need; what of them is not there is not missed.
func readable() []string {
	found := []string{"/usr", "/bin", "/sbin"}
	for _, pattern := range []string{"/lib*", "/etc/ld.so*"} {
		more, _ := filepath.Glob(pattern) // the one error there is is a bad pattern
		found = append(found, more...)
	}
	return found
}

const (
	accessRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	accessWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// accessFirst is everything that the first version of Landlock can refuse.
	accessFirst = 1<<13 - 1
)

// handledBy is what a version of Landlock can refuse, of which we want everything.
func handledBy(version uintptr) uint64 {
	handled := uint64(accessFirst)
	for since, access := range map[uintptr]uint64{
		2: unix.LANDLOCK_ACCESS_FS_REFER, 3: unix.LANDLOCK_ACCESS_FS_TRUNCATE, 5: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
	} {
		if version >= since {
			handled |= access
		}
	}
	return handled
}

// fence leaves this thread, and the program that it becomes, the files that a program needs: those of a folder, of the
// system, and /dev/null.
func fence(folder string) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("%w: %w", ErrNoFence, errno)
	}
	rules, err := newRuleset(version)
	if err != nil {
		return err
	}
	defer rules.close()
	for _, name := range append(readable(), folder) {
		if err := rules.allow(name, accessRead|unix.LANDLOCK_ACCESS_FS_READ_DIR); err != nil {
			return err
		}
	}
	if err := rules.allow(os.DevNull, accessRead|accessWrite); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// ruleset says which of the accesses that it handles are allowed after all.
type ruleset struct {
	fd      int
	handled uint64
}

func newRuleset(version uintptr) (*ruleset, error) {
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: handledBy(version)}
	size := unsafe.Sizeof(attributes.Handled_access_fs)
	if version >= 6 {
		attributes.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		size = unsafe.Offsetof(attributes.Scoped) + unsafe.Sizeof(attributes.Scoped)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), size, 0)
	if errno != 0 {
		return nil, fmt.Errorf("make rules: %w", errno)
	}
	return &ruleset{int(fd), attributes.Handled_access_fs}, nil
}

func (r *ruleset) close() { _ = unix.Close(r.fd) } // it is this thread's already

// allow allows accesses to a file, or to everything below a folder. What does not exist needs no rule.
func (r *ruleset) allow(name string, access uint64) error {
	file, err := os.OpenFile(name, unix.O_PATH, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		access &^= unix.LANDLOCK_ACCESS_FS_READ_DIR // the kernel refuses a rule that means nothing
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access & r.handled, Parent_fd: int32(file.Fd())}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %q: %w", name, errno)
	}
	return nil
}
