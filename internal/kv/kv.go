// Package kv owns NATS streams with the right number of copies.
//
// It knows nothing of what streams hold. A stream that is not there is made; where too few servers have met for all
// copies it is made with one, rather than not at all, and each later call tries to bring it to its number: a fleet's
// first hub must start while one of its replicas is still being scheduled. Copies are never taken away.
package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// What a cluster answers when it has too few servers for all copies; 10074 is a server that is none of a cluster.
const (
	codeNoPeers      jetstream.ErrorCode = 10005
	codeNoResources  jetstream.ErrorCode = 10023
	codeNotClustered jetstream.ErrorCode = 10074
)

// Stream gives the stream, and says whether it has all copies that c asks for. It is called again later when it has
// not.
func Stream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (
	s jetstream.Stream, complete bool, err error,
) {
	c.Replicas = max(1, c.Replicas)
	s, err = js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = create(c.Replicas, func(replicas int) (jetstream.Stream, error) {
			c := c
			c.Replicas = replicas
			return js.CreateStream(ctx, c)
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("open stream %s: %w", c.Name, err)
	}
	if s.CachedInfo().Config.Replicas >= c.Replicas {
		return s, true, nil
	}
	if more, err := js.UpdateStream(ctx, c); err == nil {
		return more, true, nil
	}
	return s, false, nil
}

// Bucket is Stream for a key-value bucket.
func Bucket(ctx context.Context, js jetstream.JetStream, c jetstream.KeyValueConfig) (
	kv jetstream.KeyValue, complete bool, err error,
) {
	c.Replicas = max(1, c.Replicas)
	kv, err = js.KeyValue(ctx, c.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = create(c.Replicas, func(replicas int) (jetstream.KeyValue, error) {
			c := c
			c.Replicas = replicas
			return js.CreateKeyValue(ctx, c)
		})
	}
	if err != nil {
		return nil, false, fmt.Errorf("open bucket %s: %w", c.Bucket, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("open bucket %s: %w", c.Bucket, err)
	}
	if status.Config().Replicas >= c.Replicas {
		return kv, true, nil
	}
	if more, err := js.UpdateKeyValue(ctx, c); err == nil {
		return more, true, nil
	}
	return kv, false, nil
}

// create makes with all copies if it can, else with one.
func create[T any](replicas int, with func(replicas int) (T, error)) (T, error) {
	made, err := with(replicas)
	if refused := new(jetstream.APIError); replicas > 1 && errors.As(err, &refused) {
		switch refused.ErrorCode {
		case codeNoPeers, codeNoResources, codeNotClustered:
			return with(1)
		}
	}
	return made, err
}
