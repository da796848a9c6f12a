//go:build !linux

package sandbox

// limitMemory has nothing to hold here: this kernel does not limit a process's memory for it.
func limitMemory(int64) error { return nil }

// filterSyscalls has nothing to take here: this kernel does not filter a process's system calls for it.
func filterSyscalls() error { return nil }
