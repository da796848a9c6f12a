// Package privacy owns how a process keeps its memory from the other processes of its user.
//
// It refuses to know what secrets are in there.
package privacy

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Close has this process write no core file and, where the kernel can, lets nobody but root read its memory and the environment
// that it was started with, or take it over as a debugger does. Programs that it starts are as open as any.
func Close() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	return closeMemory()
}
