package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// The sockets of the store, relative to the working folder: a Unix socket's path
// may have about a hundred bytes, which an absolute one easily exceeds, and a
// folder that was moved still finds its own member. etcd wants the port.
const (
	storeEndpoint     = "unix://store.sock:0"
	storePeerEndpoint = "unix://store-peer.sock:0"
)

// Store is the etcd of one cluster. Its sockets lie in the working folder of the
// process, which must be readable by its owner only: whoever connects may read all.
type Store struct {
	etcd *embed.Etcd
}

// OpenStore starts etcd on the data below the working folder and waits until
// it answers.
//
// Nothing is flushed to the disk: a crash of the process loses nothing, a power cut
// may lose the cluster, which then is made anew from git.
func OpenStore(ctx context.Context, logLevel string) (*Store, error) {
	// A segment is preallocated in full, two at a time: with the default of 64 MB
	// each cluster would occupy 124 MB from the start instead of 8.
	wal.SegmentSizeBytes = 4 << 20
	config, err := storeConfig(logLevel)
	if err != nil {
		return nil, err
	}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	store := &Store{etcd: etcd}
	select {
	case <-etcd.Server.ReadyNotify():
		return store, nil
	case err := <-etcd.Err():
		store.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		store.Close()
		return nil, fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
}

func storeConfig(logLevel string) (*embed.Config, error) {
	client, err := url.Parse(storeEndpoint)
	if err != nil {
		return nil, fmt.Errorf("parse store endpoint: %w", err)
	}
	peer, err := url.Parse(storePeerEndpoint)
	if err != nil {
		return nil, fmt.Errorf("parse store endpoint: %w", err)
	}
	config := embed.NewConfig()
	config.Dir = "etcd"
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	// The only member needs no log for others to catch up with.
	config.SnapshotCount = 2000
	config.SnapshotCatchUpEntries = 100
	config.MaxSnapFiles, config.MaxWalFiles = 1, 1
	// Alone it elects itself, so waiting long for others only delays the start.
	config.TickMs, config.ElectionMs = 20, 200
	config.EnableGRPCGateway = false
	config.LogOutputs = []string{"stderr"}
	config.LogLevel = logLevel
	return config, nil
}

// Run watches over the store until ctx ends. It does not close it: the API server
// must be gone first.
func (s *Store) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.etcd.Err():
		return fmt.Errorf("serve etcd: %w", err)
	case <-s.etcd.Server.StopNotify():
		return errors.New("serve etcd: stopped by itself")
	}
}

// Close stops etcd and waits for it, but for at most two seconds: the process ends next, and
// what was written is with the system already.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.etcd.Close()
	}()
	select {
	case <-closed:
	case <-time.After(2 * time.Second):
	}
}
