// Package probe owns the wait for a condition outside, as a package states it.
//
// It refuses to know why that is waited for, and what services are: it asks whoever does.
//
// A wait may name services, an address and an object. They are waited for in that order, each from when the one before was
// there, all of them within one timeout. An address is asked again and again, less and less often; an object is watched. What
// an object gives to later steps is read from the very state of it that its condition held for. The conditions are CEL within
// the bounds that all CEL here has (internal/boundcel): they are the whole text, over the one variable object, and not ${} in
// a tree, so they are no business of workspace/expr. When the time is over, the error says what was seen last.
package probe

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/workspace/packages"
)

// Target is what is looked at.
type Target struct {
	// Config reaches the cluster; nil where this machine has no way to it.
	Config *rest.Config
	// Services waits until the services of these steps are healthy.
	Services func(ctx context.Context, steps []string) error
	// Trusted are the certificate authorities that addresses are believed by; nil: the system's.
	Trusted *x509.CertPool
}

const (
	// usual is how long is waited when nothing is said.
	usual = 5 * time.Minute
	// each bounds one question.
	each = 10 * time.Second
	// first and longest are pauses between two questions.
	first, longest = 500 * time.Millisecond, 5 * time.Second
	// maxAnswer is how much of an answer is read, so that its connection can be used again.
	maxAnswer = 64 << 10
)

// TimeoutError says that something did not come to be as it was waited for.
type TimeoutError struct {
	// What is the address or the object, Seen what was seen of it last.
	What, Seen string
	After      time.Duration
	Solution   string
	Err        error
}

// Error says what was seen last.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s is not as it should be after %s: %s", e.What, e.After, e.Seen)
}

// Unwrap is why nobody waits any longer.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Fix says what to do.
func (e *TimeoutError) Fix() string { return e.Solution }

// NoClusterError says that an object is waited for in a cluster that this machine has no way to.
type NoClusterError struct{ Object string }

// Error names the object.
func (e *NoClusterError) Error() string {
	return e.Object + " cannot be looked at: this machine has no way to the management cluster"
}

// Fix says what to do.
func (e *NoClusterError) Fix() string { return "say which context it is: --context CLUSTER=CONTEXT" }

// Wait waits until everything is so, and gives the outputs. Told hears in a line what was seen, whenever that is something else;
// it is called from one goroutine.
func Wait(ctx context.Context, w *packages.Wait, on Target, told func(string)) (map[string]any, error) {
	limit := usual
	if w.Timeout != "" {
		var err error
		if limit, err = time.ParseDuration(w.Timeout); err != nil {
			return nil, fmt.Errorf("timeout %q: want it like 5m", w.Timeout)
		}
	}
	var object *object
	if w.Object != nil {
		var err error
		if object, err = newObject(w.Object); err != nil {
			return nil, err
		}
		if on.Config == nil {
			return nil, &NoClusterError{Object: object.String()}
		}
	}
	p := &probe{Target: on, limit: limit, told: told}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if len(w.Services) > 0 {
		p.say("waits for " + strings.Join(w.Services, ", "))
		if err := on.Services(ctx, w.Services); err != nil {
			return nil, fmt.Errorf("wait for %s: %w", strings.Join(w.Services, ", "), err)
		}
	}
	if w.HTTP != nil {
		if err := p.address(ctx, w.HTTP); err != nil {
			return nil, err
		}
	}
	if object == nil {
		return map[string]any{}, nil
	}
	return p.object(ctx, object)
}

// probe is one wait under way.
type probe struct {
	Target
	limit time.Duration
	told  func(string)
	seen  string
}

func (p *probe) say(text string) {
	if text != p.seen && p.told != nil {
		p.told(text)
	}
	p.seen = text
}

// again waits before the next question, and says whether there is time for one.
func again(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
