// Package onetime owns the record of what was used and can be used once.
//
// It knows neither what that is nor who shows it: codes of logins and tickets are sealed elsewhere, and good for a minute. All replicas
// share the record, so that two which are asked at once do not both say yes.
package onetime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pluralsh/plural/internal/kv"
)

const (
	// Lifetime is the longest that something may be good which is used once: twice as long it is known that it was.
	Lifetime = time.Minute

	bucket  = "login-codes"
	timeout = 2 * time.Second
)

// Record remembers IDs. It is safe for concurrent use.
type Record struct {
	js       jetstream.JetStream
	replicas int
}

// New is a record with so many copies.
func New(js jetstream.JetStream, replicas int) *Record { return &Record{js, replicas} }

// Spend notes that something was used, by its ID, which is random and in letters and digits. It says whether that is the first time. An
// error says that nobody can tell: then it may not be used either.
func (r *Record) Spend(ctx context.Context, id string) (first bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	used, _, err := kv.Bucket(ctx, r.js, jetstream.KeyValueConfig{
		Bucket: bucket, Description: "codes and tickets of logins that were used", History: 1, TTL: 2 * Lifetime,
		Storage: jetstream.FileStorage, Replicas: r.replicas,
	})
	if err != nil {
		return false, err
	}
	_, err = used.Create(ctx, id, nil)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("note that something was used: %w", err)
	}
	return true, nil
}
