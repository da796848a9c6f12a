package natsd_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/pluralsh/plural/hubsvc/natsd"
)

func TestWhatIsKeptSurvivesARestartAndNothingElseRunsOn(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	large := strings.Repeat("x", 1<<20+1<<10) // what the hub takes in at most, and more than the server's own default
	for restart := range 2 {
		server, err := natsd.Start(t.Context(), dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		kv, err := server.JetStream().CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if restart == 0 {
			if _, err := kv.PutString(t.Context(), "k", large); err != nil {
				t.Error(err)
			}
		} else if entry, err := kv.Get(t.Context(), "k"); err != nil || string(entry.Value()) != large {
			t.Errorf("after the restart: %v", err)
		}
		server.Close()
	}
}

func TestStartSaysAtOnceWhatIsWrongWithItsFolder(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	server, err := natsd.Start(t.Context(), filepath.Join(file, "nats"), slog.New(slog.DiscardHandler))
	if err == nil {
		server.Close()
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), file) || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
