//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exec replaces this process with the program at a path that is absolute, and returns only to say why it did not.
//
// The program has no environment, no network and no argument. It can read, and run in its own place, what lies in its
// own folder and where systems keep programs with their libraries; it can write nowhere but to its standard streams and
// /dev/null. It can start threads but no process, so that the kill of this one leaves nothing behind; and it is killed
// when the thread that started this process ends, which is when the parent does.
func Exec(path string, l Limits) error {
	// Walls are a thread's, and the thread that calls execve is the one that is left.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with parent: %w", err)
	}
	if err := lowerAll(map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 256, unix.RLIMIT_FSIZE: 0}); err != nil {
		return err
	}
	if err := errors.Join(lowerCPU(l.CPU), limitMemory(l.Memory)); err != nil {
		return err
	}
	if err := fence(filepath.Dir(path)); err != nil {
		return fmt.Errorf("fence off files: %w", err)
	}
	if err := filterOf(append(allowed(), allowedPrograms()...), programRules()...).install(0); err != nil {
		return err
	}
	return fmt.Errorf("run: %w", syscall.Exec(path, []string{path}, nil))
}

// allowedPrograms are the calls, beside those of a Go process that runs already, with which programs start, and read
// files. What of them touches files is the fence's to refuse.
func allowedPrograms() []uint32 {
	return append([]uint32{
		unix.SYS_EXECVE,
		// files, for reading
		unix.SYS_CHDIR, unix.SYS_CLOSE_RANGE, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_FADVISE64, unix.SYS_FCHDIR,
		unix.SYS_FLOCK, unix.SYS_FSTATFS, unix.SYS_GETCWD, unix.SYS_GETDENTS64, unix.SYS_IOCTL, unix.SYS_OPENAT, unix.SYS_PREADV,
		unix.SYS_READAHEAD, unix.SYS_READLINKAT, unix.SYS_READV, unix.SYS_STATFS, unix.SYS_STATX, unix.SYS_UMASK,
		// descriptors, pipes, waiting
		unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_EPOLL_PWAIT2, unix.SYS_PIPE2, unix.SYS_PPOLL, unix.SYS_PSELECT6,
		unix.SYS_SIGNALFD4, unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_GETTIME, unix.SYS_TIMERFD_SETTIME,
		// who one is, and what one may take
		unix.SYS_CAPGET, unix.SYS_GETEGID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETGROUPS, unix.SYS_GETPGID, unix.SYS_GETPPID,
		unix.SYS_GETPRIORITY, unix.SYS_GETRESGID, unix.SYS_GETRESUID, unix.SYS_GETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_GETSID,
		unix.SYS_GETUID, unix.SYS_SYSINFO, unix.SYS_TIMES, unix.SYS_UNAME,
		// threads, memory, signals to itself, time
		unix.SYS_CLOCK_ADJTIME, unix.SYS_GETCPU, unix.SYS_GETITIMER, unix.SYS_GET_MEMPOLICY, unix.SYS_GET_ROBUST_LIST,
		unix.SYS_MEMBARRIER, unix.SYS_MLOCK, unix.SYS_MSYNC, unix.SYS_MUNLOCK, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGSUSPEND,
		unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
		unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SETITIMER, unix.SYS_SET_TID_ADDRESS,
		unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE, unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_SETTIME,
		unix.SYS_WAIT4, unix.SYS_WAITID,
	}, allowedProgramsHere()...)
}

// programRules are calls that a program may make to itself only.
func programRules() []filter {
	const offsetArg2 = offsetArg0 + 16
	return []filter{
		onlyOwn(unix.SYS_TGKILL), onlyOwn(unix.SYS_KILL),
		// whose end it is to end with
		{
			unless(unix.BPF_JEQ, unix.SYS_PRCTL, 4), load(offsetArg0), unless(unix.BPF_JEQ, unix.PR_SET_PDEATHSIG, 1),
			answerWith(verdictDeny), answerWith(verdictAllow),
		},
		// limits are read, by a pointer that is null, and never set
		{
			unless(unix.BPF_JEQ, unix.SYS_PRLIMIT64, 6), load(offsetArg2), unless(unix.BPF_JEQ, 0, 3),
			load(offsetArg2 + 4), unless(unix.BPF_JEQ, 0, 1), answerWith(verdictAllow), answerWith(verdictDeny),
		},
	}
}
