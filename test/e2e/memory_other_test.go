//go:build !linux

package e2e

import "testing"

// memory cannot be read here.
func (h *hunt) memory(t testing.TB, _ string, _ int) {
	t.Helper()
	cannotRead(t, "memory of another process on this system")
}
