//go:build linux && !amd64 && !arm64

package sandbox

// filterSyscalls knows no numbers for this architecture: the other walls stand alone.
func filterSyscalls() error { return nil }
