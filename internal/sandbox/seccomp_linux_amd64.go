package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

// allowedHere are calls that only this architecture has.
func allowedHere() []uint32 { return []uint32{unix.SYS_ARCH_PRCTL, unix.SYS_EPOLL_WAIT, unix.SYS_TIME} }

// allowedProgramsHere are calls of programs that only this architecture has.
func allowedProgramsHere() []uint32 {
	return []uint32{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_DUP2, unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT,
		unix.SYS_OPEN, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_SELECT, unix.SYS_STAT,
	}
}
