//go:build !linux || (!amd64 && !arm64)

package sandbox

// Exec would run a program behind walls, which this system cannot raise.
func Exec(string, Limits) error { return ErrNoFence }
