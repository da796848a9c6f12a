package natsd_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/internal/kv"
)

func TestWhatIsKeptSurvivesARestartAndNothingElseRunsOn(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	large := strings.Repeat("x", 1<<20+1<<10) // what the hub takes in at most, and more than the server's own default
	for restart := range 2 {
		server, err := natsd.Start(t.Context(), natsd.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
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
	server, err := natsd.Start(t.Context(), natsd.Options{
		Dir: filepath.Join(file, "nats"), Log: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		server.Close()
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), file) || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestAServerWhoseFolderWasDeletedKeepsThingsAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	server, err := natsd.Start(t.Context(), natsd.Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	keep := func() error {
		kv, err := server.JetStream().CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "b"})
		if err != nil {
			return err
		}
		if _, err := kv.PutString(t.Context(), "k", "v"); err != nil {
			return err
		}
		_, err = os.Stat(filepath.Join(dir, "jetstream"))
		return err
	}
	eventually(t, keep)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, keep)
}

func TestAnExternalServerMayComeLater(t *testing.T) {
	t.Parallel()
	address := free(t)
	here, err := natsd.Start(t.Context(), natsd.Options{
		Name: "hub-0", External: &natsd.External{URL: "nats://" + address, Replicas: 3}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	if here.Replicas() != 3 {
		t.Errorf("replicas = %d", here.Replicas())
	}
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	there, err := server.NewServer(&server.Options{
		Host: host, Port: number, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	go there.Start()
	defer func() { there.Shutdown(); there.WaitForShutdown() }()
	eventually(t, func() error {
		_, _, err := kv.Bucket(t.Context(), here.JetStream(), jetstream.KeyValueConfig{Bucket: "b", Replicas: 1})
		return err
	})
}

func TestAPasswordInAURLIsNotShown(t *testing.T) {
	t.Parallel()
	_, err := natsd.Start(t.Context(), natsd.Options{
		External: &natsd.External{URL: "nats://hub:hunter2@nats.example.com:port"}, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v", err)
	}
}
