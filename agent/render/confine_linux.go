package render

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// confineKernel lets the kernel hold the memory limit, then takes the system calls away.
func confineKernel(limits Limits) error {
	held, err := dataSize()
	if err != nil {
		return fmt.Errorf("read memory size: %w", err)
	}
	// Address space is no measure, since the Go runtime reserves more than it uses; private writable memory is.
	if err := lower(unix.RLIMIT_DATA, held+uint64(limits.Memory/4*5)); err != nil {
		return fmt.Errorf("limit memory: %w", err)
	}
	return filterSyscalls()
}

// dataSize is the private writable memory this process maps already, in bytes: threads' stacks and, in a race-enabled
// build, a large shadow are part of it.
func dataSize() (uint64, error) {
	line, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(line))
	if len(fields) < 6 {
		return 0, fmt.Errorf("unexpected %q", line)
	}
	pages, err := strconv.ParseUint(fields[5], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}
