package rotation_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pluralsh/plural/internal/rotation"
)

func TestOnlyTheOldestFullFilesGo(t *testing.T) {
	dir := t.TempDir()
	files := rotation.Files{Newest: filepath.Join(dir, "events.jsonl"), Keep: 3}
	others := []string{"events-of-ours.jsonl", "events-20260102T150405.000000000Z.json", "other-20260102T150405.000000000Z.jsonl"}
	for _, name := range append(others, "events.jsonl") {
		touch(t, filepath.Join(dir, name))
	}
	clock := time.Date(2026, 1, 2, 15, 4, 5, 0, time.FixedZone("there", 3600))
	var made []string
	for n := range 5 { // the clock is set back each time
		name, err := files.Next(clock.Add(-time.Duration(n) * time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		touch(t, name)
		made = append(made, name)
		if err := files.Prune(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(made) || filepath.Base(made[0]) != "events-20260102T140405.000000000Z.jsonl" {
		t.Errorf("names are %q", made)
	}
	if full, err := files.Full(); err != nil || !slices.Equal(full, made[3:]) {
		t.Errorf("%q are left, %v; want %q", full, err, made[3:])
	}
	for _, name := range append(others, "events.jsonl") {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
