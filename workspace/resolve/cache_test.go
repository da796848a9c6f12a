package resolve

import "testing"

func TestCacheForgetsOnlyWhatIsNotUsed(t *testing.T) {
	var c cache[int, int]
	c.set(-1, 1)
	c.set(-2, 2)
	for i := range 3 * cacheSize {
		c.set(i, i)
		if _, ok := c.get(-1); !ok {
			t.Fatalf("an entry in use was dropped after %d more", i)
		}
	}
	if _, ok := c.get(-2); ok {
		t.Error("an unused entry is still there")
	}
	if n := len(c.young) + len(c.old); n > 2*cacheSize {
		t.Errorf("%d entries", n)
	}
}
