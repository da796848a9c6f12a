package natsd_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/internal/kv"
	"github.com/pluralsh/plural/test/support/needs"
)

// put writes what fills a small disk in some writes.
func put(t *testing.T, server *natsd.Server, name string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	kv, _, err := kv.Bucket(ctx, server.JetStream(), jetstream.KeyValueConfig{
		Bucket: "b", History: 1, Storage: jetstream.FileStorage, Replicas: server.Replicas(),
	})
	if err != nil {
		return err
	}
	_, err = kv.PutString(ctx, name, strings.Repeat("x", 64<<10))
	return err
}

func TestAServerWhoseDiskWasFullKeepsThingsAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		servers int
	}{{"alone", 1}, {"one of three", 3}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			disk := needs.SmallDisk(t, "size=24m")
			var clusters [3]*natsd.Cluster
			if c.servers > 1 {
				authority, routes := newAuthority(t), []string{free(t), free(t), free(t)}
				for i, address := range routes {
					clusters[i] = &natsd.Cluster{Listen: address, Routes: routes, TLS: authority.settings(t, address)}
				}
			}
			var servers []*natsd.Server
			for i := range c.servers {
				dir := t.TempDir()
				if i == 0 {
					dir = filepath.Join(disk, "nats")
				}
				servers = append(servers, start(t, fmt.Sprint("hub-", i), dir, clusters[i]))
			}
			first := servers[0]
			eventually(t, func() error { return put(t, first, "before") })
			eventually(t, has(t, first, "b", min(3, c.servers)))
			release := needs.FillDisk(t, disk)
			eventually(t, func() error {
				_ = put(t, first, "meanwhile")
				if first.Fault() == nil {
					return errors.New("nobody has noticed that the disk is full")
				}
				return nil
			})
			if fault := first.Fault(); !strings.Contains(fault.Error(), "no space left") {
				t.Errorf("the fault is %v", fault)
			}
			release()
			eventually(t, first.Fault)
			eventually(t, func() error { return put(t, first, "after") })
			for _, server := range servers {
				eventually(t, func() error { return holds(t, server, "before", "after") })
			}
		})
	}
}

// holds says which of some keys a server's bucket has not.
func holds(t *testing.T, server *natsd.Server, keys ...string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	kv, err := server.JetStream().KeyValue(ctx, "b")
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := kv.Get(ctx, key); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
