package privacy

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// closeMemory goes without a limit of core files: of a process that is not dumpable the kernel writes none, and unlike a limit
// that ends with it, where a program that it starts begins.
func closeMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close memory to other processes: %w", err)
	}
	return nil
}
