//go:build !linux

package privacy

// closeMemory has nothing to close: this kernel lets a user's processes look into each other by rules of its own.
func closeMemory() error { return nil }
