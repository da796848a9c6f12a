//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that the Go runtime and libc's threads make once a process runs, and those that
// move bytes on descriptors already open. Everything else fails with EPERM, so a library that tries gets an error and
// not a signal; what is new in a kernel is refused without this list knowing it.
func allowed() []uint32 {
	return append([]uint32{
		// memory
		unix.SYS_BRK, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MUNMAP,
		// threads, signals to itself, time
		unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
		unix.SYS_FUTEX, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETTIMEOFDAY, unix.SYS_NANOSLEEP, unix.SYS_RESTART_SYSCALL,
		unix.SYS_RSEQ, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SCHED_GETAFFINITY,
		unix.SYS_SCHED_YIELD, unix.SYS_SET_ROBUST_LIST, unix.SYS_SIGALTSTACK,
		// descriptors that are open, and the poller
		unix.SYS_CLOSE, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
		unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_PREAD64, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_WRITEV,
		unix.SYS_GETRANDOM,
	}, allowedHere()...)
}

// Offsets into the kernel's struct seccomp_data. Both architectures are little-endian: an argument's low half is first.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16
)

const (
	verdictAllow = unix.SECCOMP_RET_ALLOW
	verdictDeny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// glibc falls back to clone, whose flags a filter can see, when clone3 does not exist.
	verdictNone = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// filter is the kernel's classic BPF: top to bottom, each test jumping over the verdict it does not reach.
type filter []unix.SockFilter

// filterOf refuses every call that neither the list nor a rule lets pass.
func filterOf(list []uint32, rules ...filter) filter {
	f := filter{
		load(offsetArch),
		when(unix.BPF_JEQ, architecture, 1), // a foreign calling convention numbers its calls otherwise
		answerWith(verdictDeny),
		load(offsetNumber),
	}
	for _, number := range list {
		f = append(f, unless(unix.BPF_JEQ, number, 1), answerWith(verdictAllow))
	}
	for _, rule := range append(rules, threadsOnly(), unsignalling()) {
		f = append(f, rule...)
	}
	return append(f, answerWith(verdictDeny))
}

// threadsOnly lets a process start threads, never processes.
func threadsOnly() filter {
	return filter{
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1), answerWith(verdictNone),
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 4), load(offsetArg0), unless(unix.BPF_JSET, unix.CLONE_THREAD, 1),
		answerWith(verdictAllow), answerWith(verdictDeny),
	}
}

// unsignalling lets descriptors be asked and set in every way but those that have the kernel signal another process.
func unsignalling() filter {
	return filter{
		unless(unix.BPF_JEQ, unix.SYS_FCNTL, 6), load(offsetArg0 + 8),
		when(unix.BPF_JEQ, unix.F_SETOWN, 3), when(unix.BPF_JEQ, unix.F_SETSIG, 2), when(unix.BPF_JEQ, unix.F_SETOWN_EX, 1),
		answerWith(verdictAllow), answerWith(verdictDeny),
	}
}

// onlyOwn lets a call pass whose first argument is this process: the runtime interrupts its own threads, nobody else's.
func onlyOwn(number uint32) filter {
	return filter{
		unless(unix.BPF_JEQ, number, 4), load(offsetArg0), unless(unix.BPF_JEQ, uint32(os.Getpid()), 1),
		answerWith(verdictAllow), answerWith(verdictDeny),
	}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// unless skips that many instructions when the test against k fails.
func unless(test uint16, k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jf: skip}
}

// when skips that many instructions when the test against k holds.
func when(test uint16, k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: skip}
}

func answerWith(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// filterSyscalls leaves every thread of this process what the Go runtime needs.
func filterSyscalls() error {
	return filterOf(allowed(), onlyOwn(unix.SYS_TGKILL)).install(unix.SECCOMP_FILTER_FLAG_TSYNC)
}

// install hangs the filter before this thread, or before all of them when the flags say TSYNC.
func (f filter) install(flags uintptr) error {
	fprog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	// The two calls must come from one thread; the second carries over to the others.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("filter system calls: thread %d keeps a filter of its own", thread)
	}
	runtime.KeepAlive(f)
	return nil
}
