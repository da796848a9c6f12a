package stage

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used up to now.
type Usage struct {
	// CPU is user and system time.
	CPU time.Duration
	// RSS is what it holds resident now, Peak the most that it ever did; bytes.
	RSS, Peak int64
}

// clockTick is the unit of times in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// UsageOf asks the system about a process. It needs /proc.
func UsageOf(pid int) (Usage, error) {
	var u Usage
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("measure the hub: %w", err)
	}
	// The name, in parentheses, may hold anything; after it the fields count from the third.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, i := range []int{11, 12} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return u, fmt.Errorf("measure the hub: %w", err)
		}
		u.CPU += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("measure the hub: %w", err)
	}
	for name, into := range map[string]*int64{"VmRSS:": &u.RSS, "VmHWM:": &u.Peak} {
		_, rest, _ := strings.Cut(string(status), name)
		if values := strings.Fields(rest); len(values) > 0 {
			kib, err := strconv.ParseInt(values[0], 10, 64)
			if err != nil {
				return u, fmt.Errorf("measure the hub: %w", err)
			}
			*into = kib << 10
		}
	}
	return u, nil
}
