package auth_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
)

func TestTokenThatCannotBeReadOrMadeIsAnErrorAndNoHubWithoutOne(t *testing.T) {
	dir := t.TempDir()
	inTheWay := filepath.Join(dir, "file")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"a folder": dir, "below a file": filepath.Join(inTheWay, "token")} {
		if people, err := auth.NewPeople(auth.Options{File: file, Now: time.Now, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%s: people are %v", name, people)
		}
	}
}
