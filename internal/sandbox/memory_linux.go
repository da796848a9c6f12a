package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// limitMemory lets the kernel hold the limit.
func limitMemory(most int64) error {
	now, err := mapped()
	if err != nil {
		return fmt.Errorf("read memory size: %w", err)
	}
	// Private writable memory is the measure, since the Go runtime reserves more addresses than it uses. But the kernel
	// counts one mapping over a reserved range only afterwards, so addresses are limited too, with the room that new
	// threads need: that stops the one allocation larger than the machine.
	return lowerAll(map[int]uint64{
		unix.RLIMIT_DATA: now.data + shadow*uint64(most/4*5),
		unix.RLIMIT_AS:   now.addresses + shadow*uint64(2*most) + 1<<30,
	})
}

// mappings is what this process maps, in bytes: threads' stacks and, in a race-enabled build, a large shadow are part of it.
type mappings struct{ addresses, data uint64 }

func mapped() (mappings, error) {
	line, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return mappings{}, err
	}
	var pages mappings
	var skip uint64
	if _, err := fmt.Sscan(string(line), &pages.addresses, &skip, &skip, &skip, &skip, &pages.data); err != nil {
		return mappings{}, fmt.Errorf("parse %q: %w", line, err)
	}
	size := uint64(os.Getpagesize())
	return mappings{pages.addresses * size, pages.data * size}, nil
}
