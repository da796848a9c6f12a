package bundle

import (
	"errors"
	"os"
	"testing"
)

// sha-mbles-1.bin is the first of two files with one SHA-1, from https://sha-mbles.github.io. Nobody has made two git objects yet.
func TestContentMadeToCollideHasNoID(t *testing.T) {
	made, err := os.ReadFile("testdata/sha-mbles-1.bin")
	if err != nil {
		t.Fatal(err)
	}
	var refused *EntryError
	if id, err := sum("apps/web/x", made[:100], made[100:]); !errors.As(err, &refused) || refused.Path != "apps/web/x" {
		t.Errorf("id is %x, %v", id, err)
	}
	made[0] ^= 1
	if _, err := sum("apps/web/x", made); err != nil {
		t.Errorf("content that collides with nothing: %v", err)
	}
}
