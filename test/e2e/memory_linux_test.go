package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// memory looks through all that a process has in its memory, and through what it was started with.
func (h *hunt) memory(t testing.TB, name string, pid int) {
	t.Helper()
	for _, file := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if os.IsPermission(err) {
			cannotRead(t, "memory of another process, which keeps it to itself: be root")
		}
		if err != nil {
			t.Fatal(err)
		}
		h.search(name+" "+file, data)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if os.IsPermission(err) {
		cannotRead(t, "memory of another process, which keeps it to itself: be root")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	before := h.bytes
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if !strings.HasPrefix(mode, "r") || strings.Contains(lines.Text(), "[v") { // the kernel's own pages begin with v
			continue
		}
		region := make([]byte, to-from)
		n, _ := memory.ReadAt(region, int64(from)) // a region may have gone, or shrunk, since it was listed
		h.search(name+" memory", region[:n])
	}
	if h.bytes-before < 16<<20 {
		t.Fatalf("of the memory of %s only %d bytes were readable", name, h.bytes-before)
	}
}
