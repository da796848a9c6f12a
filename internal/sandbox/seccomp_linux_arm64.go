package sandbox

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// allowedHere are calls that only this architecture has.
func allowedHere() []uint32 { return nil }

// allowedProgramsHere are calls of programs that only this architecture has.
func allowedProgramsHere() []uint32 {
	return []uint32{unix.SYS_FSTATAT}
}
