package model

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pluralsh/plural/cli/client"
)

const (
	// glance is how often it is looked whether the person has logged in again.
	glance = time.Second
	// hope is after how many glances a hub is asked with the token that it did not take: it may not have known it yet.
	hope = 15
)

// loggedOut says that a hub does not take the person's token.
func loggedOut(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == http.StatusUnauthorized
}

// locked tells that a hub did not take the token, and waits until it may take one. tokens are those before it was asked.
func (h *hub) locked(ctx context.Context, tokens uint64, why error) error {
	h.out(why)
	timer := time.NewTicker(glance)
	defer timer.Stop()
	for range hope {
		if h.renew(); h.tokens.Load() != tokens {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
	return nil
}

// renew takes the token that is kept now.
func (h *hub) renew() {
	if h.token == nil {
		return
	}
	if token, err := h.token(); err == nil && token != "" && h.client.As(token) {
		h.tokens.Add(1)
	}
}

// out tells that the hub does not take the token.
func (h *hub) out(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.said.LoggedOut {
		return
	}
	if h.said.Link == Connecting { // else rows are as old as they are
		h.said.Since = h.now()
	}
	h.said.LoggedOut, h.said.Why = true, why.Error()
	h.tell()
}

// in tells that the hub takes the token again.
func (h *hub) in() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.said.LoggedOut {
		h.said.LoggedOut, h.said.Why = false, ""
		h.tell()
	}
}

// tell gives the state. The caller holds mu.
func (h *hub) tell() {
	s := h.said
	h.emit(Batch{State: &s})
}
