package apply

import (
	"context"
	"fmt"
	"sync"
)

// reachability notices that an API server has gone away, so that a pass of thousands of objects does not wait for a timeout
// on each. One request without an answer is a hiccup; limit of them in a row are an outage.
type reachability struct {
	limit int

	mu     sync.Mutex // guards what follows
	streak int
	last   error
}

// note takes the outcome of a request.
func (c *reachability) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil || answered(err) {
		c.streak, c.last = 0, nil
		return
	}
	c.streak++
	c.last = err
}

// lost returns why it makes no sense to send more requests, or nil.
func (c *reachability) lost(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streak < c.limit {
		return nil
	}
	return fmt.Errorf("the API server does not answer: %w", c.last)
}

// closing returns why a pass that is over cannot be trusted to have seen the cluster, or nil.
func (c *reachability) closing(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return nil
	}
	return fmt.Errorf("the API server does not answer: %w", c.last)
}
