//go:build !linux

package privacy

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// closeMemory forbids core files and has nothing else to close: this kernel lets a user's processes look into each other by rules
// of its own. Programs that are started inherit that, and may raise the limit again, up to what this process was started with.
func closeMemory() error {
	var core unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("read the limit of core files: %w", err)
	}
	core.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &core); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	return nil
}
